#include <locus/core/ranks/rank_calls.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/ranks/rank_purpose.h>

namespace locus::cluster {
namespace {

// Types of exceptions, by number; 0: none.

template <class... E>
struct Kinds {
  static uint8_t of(const std::exception& e) {
    uint8_t at = 0, found = 0;
    ((++at, found = found == 0 && dynamic_cast<const E*>(&e) ? at : found), ...);
    return found == 0 ? sizeof...(E) : found;
  }
  [[noreturn]] static void raise(uint8_t kind, const std::string& text) {
    uint8_t at = 0;
    ((++at == kind ? throw E(text) : void()), ...);
    throw Error(text);
  }
};
using FailureKinds =
    Kinds<ContextMismatch, ShapeError, DTypeError, IndexError, ValueError, DeviceError, OutOfMemory,
          CaptureError, UnsupportedOnContext, SourceError, FormatError, EmptyTensor, Error>;

struct Head {  // of a rank's message; a failure's text follows
  std::array<uint64_t, 4> spec;
  Context context;
  uint8_t can_link, failure;
};
struct Verdict {  // of rank 0's; an error's text follows
  uint8_t kind, failed, fresh;
  uint8_t differ;  // the hash in which ranks differ, from 1; 0: none
  uint32_t link;
  int32_t thrower;  // the rank that failed; -1: none
};

template <class T>
std::string packed(const T& head, const std::string& text) {
  std::string message(sizeof(T), '\0');
  std::memcpy(message.data(), &head, sizeof(T));
  return (message + text).substr(0, Ranks::kLongest);
}
template <class T>
std::pair<T, std::string> unpacked(const std::string& message) {
  T head;
  std::memcpy(&head, message.data(), sizeof(T));
  return {head, message.substr(sizeof(T))};
}

std::string numbers(const std::vector<int>& ranks) {
  const std::string all = listed(ranks, [](int r) { return std::to_string(r); });
  return (ranks.size() == 1 ? "rank " : "ranks ") + shortened(all, 60);
}

constinit Ranks* joined = nullptr;  // as long as the process
constinit double limit = 0;

// Why the cluster has failed.
std::string& failure_text() {
  static auto* const text = new std::string;
  return *text;
}

// On rank 0: the number of the link between these contexts, and whether it is new.
std::pair<uint32_t, bool> link_of(const std::vector<Context>& contexts) {
  static auto* const all = new std::map<std::vector<Context>, uint32_t>;
  const auto [at, fresh] = all->try_emplace(contexts, static_cast<uint32_t>(all->size() + 1));
  return {at->second, fresh};
}

using Messages = std::vector<std::optional<std::string>>;

// The error of rank 0's call if ranks did not call; "" if all did.
std::string missing(const Messages& messages, const RankCall& call, double seconds) {
  std::vector<int> missing;
  for (size_t r = 0; r < messages.size(); ++r)
    if (!messages[r]) missing.push_back(static_cast<int>(r));
  if (missing.empty()) return "";
  return text_of(call.text(), ": ", numbers(missing), " did not reach this call within ", seconds,
                 " s: a rank ended, hangs or called another function; if it is only slow, raise "
                 "LOCUS_CLUSTER_TIMEOUT");
}

// The ranks whose hash k is not rank 0's.
std::vector<int> differing(const Messages& messages, size_t k) {
  const auto spec = [&](size_t r) { return unpacked<Head>(*messages[r]).first.spec[k]; };
  std::vector<int> differ;
  for (size_t r = 1; r < messages.size(); ++r)
    if (spec(r) != spec(0)) differ.push_back(static_cast<int>(r));
  return differ;
}

Verdict failed() {
  return {.kind = FailureKinds::of(DeviceError("")),
          .failed = 1,
          .fresh = 0,
          .differ = 0,
          .link = 0,
          .thrower = -1};
}

// On rank 0: the verdict on all messages.
std::pair<Verdict, std::string> judge(const Messages& messages, const RankCall& call,
                                      double seconds) {
  if (const std::string why = missing(messages, call, seconds); !why.empty())
    return {failed(), why};
  std::vector<std::pair<Head, std::string>> calls;
  for (const auto& message : messages) calls.push_back(unpacked<Head>(*message));
  Verdict v{.kind = 0, .failed = 0, .fresh = 0, .differ = 0, .link = 0, .thrower = -1};
  for (size_t r = 0; r < calls.size(); ++r) {
    const auto& [head, text] = calls[r];
    if (head.failure == 0) continue;
    v.kind = head.failure;
    v.thrower = static_cast<int32_t>(r);
    return {v, "rank " + std::to_string(r) + ": " + text};
  }
  for (size_t k = 0; k < call.spec.size(); ++k)
    if (!differing(messages, k).empty()) {
      v.differ = static_cast<uint8_t>(k + 1);
      return {v, ""};
    }
  std::vector<Context> contexts;
  for (const auto& [head, text] : calls)
    if (head.can_link) contexts.push_back(head.context);
  if (contexts.size() == calls.size()) std::tie(v.link, v.fresh) = link_of(contexts);
  return {v, ""};
}

// On rank 0: the error of calls that differ in hash `v.differ`. `texts` describe them.
std::pair<Verdict, std::string> explain(Verdict v, const Messages& messages, const Messages& texts,
                                        const RankCall& call, double seconds) {
  if (const std::string why = missing(texts, call, seconds); !why.empty()) return {failed(), why};
  const size_t k = v.differ - size_t{1};
  const uint8_t kinds[] = {FailureKinds::of(Error("")), FailureKinds::of(ContextMismatch("")),
                           FailureKinds::of(DTypeError("")), FailureKinds::of(ShapeError(""))};
  const char* const in_what[] = {"function or purpose", "kinds or number of contexts", "dtypes",
                                 "shapes or shared contexts"};
  const std::vector<int> differ = differing(messages, k);
  const auto called = [&](int r) {  // two texts fit a message
    return texts[static_cast<size_t>(r)]->substr(0, Ranks::kLongest * 2 / 5);
  };
  v.kind = kinds[k];
  return {v, text_of("the ranks' calls differ, ", numbers(differ), " from rank 0, in ", in_what[k],
                     ": rank 0 called ", called(0), ", and rank ", differ[0], " ",
                     called(differ[0]), "; expected the same call on every rank")};
}

// Rank 0's verdict, on every rank.
std::pair<Verdict, std::string> answer_of(const std::pair<Verdict, std::string>& mine,
                                          const RankCall& call, double seconds) {
  const bool root = ranks()->info().rank == 0;
  // Rank 0 may call `seconds` later, and then waits for the others.
  const double longest = 2 * seconds + 2;
  const auto answer =
      ranks()->from_root(root ? packed(mine.first, mine.second) : std::string(), longest);
  if (!answer)
    throw DeviceError(call.text(), ": rank 0 did not answer within ", longest,
                      " s; it ended, hangs or calls something else");
  return unpacked<Verdict>(*answer);
}

}  // namespace

void use(Ranks& ranks, double time_limit) {
  joined = &ranks;
  limit = time_limit;
}
Ranks* ranks() { return joined; }
double time_limit() { return limit; }

Mutex& turns() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

std::string shortened(const std::string& list, size_t longest) {
  if (list.size() <= longest) return list;
  const size_t cut = std::min(list.rfind(", ", longest), longest);
  size_t more = 0;
  for (size_t at = cut; (at = list.find(", ", at)) != std::string::npos; at += 2) ++more;
  return text_of(list.substr(0, cut), more > 0 ? text_of(", ... ", more, " more") : "...");
}

RankCall call_of(const std::string& name, Caller from, std::function<std::string()> details) {
  RankCall call;
  call.spec[0] = Hash().add(name).add(Purpose::hash()).value();
  call.text = [name, from, details = std::move(details)] {
    std::string text = details ? name + details() : name;
    if (Purpose::any()) text += text_of(", for ", shortened(Purpose::text(), 170));
    return text_of(text, " (", from, ")");
  };
  return call;
}

Agreed agree(const RankCall& call, double seconds) {
  if (!failure_text().empty())
    throw DeviceError(call.text(), ": the cluster has failed before: ", failure_text());
  Head head{.spec = call.spec, .context = call.context, .can_link = call.can_link, .failure = 0};
  std::string text;
  if (call.failure) try {
      std::rethrow_exception(call.failure);
    } catch (const std::exception& e) {
      head.failure = FailureKinds::of(e);
      text = e.what();
    } catch (...) {
      head.failure = FailureKinds::of(Error(""));
      text = "an exception of an unknown type";
    }
  std::pair<Verdict, std::string> verdict;
  carry_out([&] {
    const bool root = ranks()->info().rank == 0;
    const Messages messages = ranks()->gather(packed(head, text), seconds);
    verdict = answer_of(root ? judge(messages, call, seconds) : verdict, call, seconds);
    if (verdict.first.differ == 0) return;
    const Messages texts = ranks()->gather(call.text().substr(0, Ranks::kLongest), seconds);
    verdict = answer_of(root ? explain(verdict.first, messages, texts, call, seconds) : verdict,
                        call, seconds);
  });
  const auto& [v, why] = verdict;
  if (v.failed) failure_text() = why;
  if (v.thrower == ranks()->info().rank) std::rethrow_exception(call.failure);
  if (v.kind != 0) FailureKinds::raise(v.kind, why);
  return {.link = v.link, .fresh = v.fresh != 0};
}

void carry_out(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    failure_text() = e.what();
    if (failure_text().empty()) failure_text() = "an exception without a text";
    throw;
  }
}

}  // namespace locus::cluster
