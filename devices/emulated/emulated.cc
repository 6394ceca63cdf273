#include <locus/devices/emulated.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/base/environment.h>
#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/devices/emulated/emulated_queue.h>
#include <locus/devices/emulated_link.h>
#include <locus/devices/host/host_memory.h>
#include <locus/devices/host/host_program.h>
#include <locus/devices/pool/spares.h>

namespace locus {
namespace {

using emulated::EventRef;
using emulated::FirstFault;
using emulated::Queue;

constexpr size_t kAlignment = 512;
constexpr size_t kDefaultMemory = size_t{4} << 30;

int device_count = 0;                         // set while the program starts
const std::string* wrong_variable = nullptr;  // the error in the variables

EventRef& event_of(EventView e) { return *static_cast<EventRef*>(e.native); }

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(Context c)
      : context_(c),
        total_(environment_bytes("LOCUS_EMULATED_MEMORY")
                   .value_or(std::min(kDefaultMemory, host_memory().total))),
        pool_(std::make_unique<Memory>(*this), {.context = c, .rounding = kAlignment}) {
    for (Queue*& lane : lanes_) lane = add_queue();
  }

  MemoryPool& allocator() override { return pool_; }
  MemoryInfo memory() override { return {total_ - used_, total_}; }
  ContextInfo info() override {
    const bool modelled = emulated::link_model().has_value();
    return {.name = "emulated GPU (CPU kernels)",
            .emulated = true,
            .modelled = modelled,
            .times = modelled ? "times modelled by LOCUS_EMULATED_LINK"
                              : "times of this machine's memory and cores"};
  }
  DeviceType kernels() const override { return DeviceType::cpu; }

  StreamView stream(Lane lane) override { return lanes_[static_cast<int>(lane)]->view(); }
  StreamView open_stream() override {
    Queue& q = take(closed_);
    q.reopen();
    pool_.revive(q.view());
    return q.view();
  }
  void close_stream(StreamView s) noexcept override {
    queue(s).close();
    pool_.retire(s);
    closed_.put(&queue(s));
  }

  void launch(Kernel kernel, const Call& call, const char* name) override {
    queue(call.stream).launch(kernel, call, name);
  }

  void copy(void* dst, Context to, const void* src, Context from, size_t bytes,
            StreamView s) override {
    if (bytes == 0) return;
    Queue& q = queue(s);
    const bool read_now = from.type == DeviceType::cpu;
    const bool staged = read_now && bytes <= Queue::kStaged;
    q.copy(dst, to, src, from, bytes, staged);
    if ((read_now && !staged) || to.type == DeviceType::cpu) q.drain();
  }

  EventView record(StreamView s) override {
    auto event = std::make_unique<EventRef>(std::make_shared<emulated::Fence>());
    queue(s).record(*event);
    return {context_, event.release()};
  }
  void release(EventView e) noexcept override { delete &event_of(e); }
  bool done(EventView e) override { return event_of(e)->done(); }
  void wait(StreamView waiter, EventView e) override {
    if (e.native == nullptr) return;  // a host's event: already fired
    if (e.context.type != context_.type) return device(e.context).wait_host(e);
    if (waiter.id == 0) return wait_host(e);
    if (!event_of(e)->done()) queue(waiter).wait(event_of(e));
  }
  void wait_host(EventView e) override { event_of(e)->wait(); }
  double elapsed_ms(EventView from, EventView to) override {
    const auto time = event_of(to)->time() - event_of(from)->time();
    return std::chrono::duration<double, std::milli>(time).count();
  }
  void synchronize(StreamView s) override {
    if (s.id == 0)
      drain_all();
    else
      queue(s).drain();
    fault_.rethrow();
  }
  std::unique_ptr<KernelProgram> build(const ProgramSource& source) override {
    return build_on_host(context_, source);
  }

 private:
  // Counts against total_. Waits for the queues before it releases memory.
  class Memory final : public MemorySource {
   public:
    explicit Memory(EmulatedDevice& d) : device_(d) {}
    void* allocate(size_t bytes) override {
      size_t used = device_.used_;
      do {
        if (bytes > device_.total_ - used) return nullptr;
      } while (!device_.used_.compare_exchange_weak(used, used + bytes));
      if (void* p = host_allocate(bytes, kAlignment)) return touch(p, bytes);
      device_.used_ -= bytes;
      return nullptr;
    }
    void release(void* p, size_t bytes) noexcept override {
      FirstFailure ignored;  // in a child of fork() no queue runs
      ignored.run([&] { device_.drain_all(); });
      host_free(p);
      device_.used_ -= bytes;
    }

   private:
    // Touches all pages: at first use they cost ten times a copy, unlike a GPU's memory.
    static void* touch(void* p, size_t bytes) {
      constexpr size_t kPage = 4096;
      for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(p)[at] = 0;
      return p;
    }

    EmulatedDevice& device_;
  };

  // An unused queue, or a new one.
  Queue& take(Spares<Queue*>& unused) {
    Queue* const q = unused.take();
    return q ? *q : *add_queue();
  }
  Queue* add_queue() {
    const MutexLock lock(mutex_);
    queues_.push_back(std::make_unique<Queue>(context_, fault_));
    return queues_.back().get();
  }
  void drain_all() {
    std::vector<Queue*> all;
    {
      const MutexLock lock(mutex_);
      for (const auto& q : queues_) all.push_back(q.get());
    }
    for (Queue* q : all) q->drain();
  }
  Queue& queue(StreamView s) {
    LOCUS_CHECK(s.context == context_ && s.native != nullptr, context_, " was given a stream of ",
                s.context);
    return *static_cast<Queue*>(s.native);
  }

  const Context context_;
  const size_t total_;
  std::atomic<size_t> used_{0};  // at most total_
  FirstFault fault_;
  Mutex mutex_;
  // Closed queues, too, because tensors may refer to them.
  std::vector<std::unique_ptr<Queue>> queues_ LOCUS_GUARDED_BY(mutex_);
  Spares<Queue*> closed_;  // for open_stream()
  Queue* lanes_[kNumLanes];
  CachingPool pool_;
};

}  // namespace

bool register_emulated() {
  try {
    device_count =
        static_cast<int>(environment_number("LOCUS_EMULATED_GPUS", 0, kMaxDevices).value_or(0));
    const char* link = std::getenv("LOCUS_EMULATED_LINK");
    emulated::share_cores(device_count);
    if (device_count > 0 && link != nullptr && *link != 0)
      emulated::set_link_model(emulated::LinkModel::parse(link));
  } catch (const Error& e) {
    // This runs before main, where nothing can be caught. The first use of a gpu throws.
    wrong_variable = new std::string(e.what());
    register_device(DeviceType::gpu,
                    {"gpu", []() -> int { throw Error(*wrong_variable); }, nullptr, ""});
    return true;
  }
  if (device_count == 0) return false;
  register_device(DeviceType::gpu, {"gpu", [] { return device_count; },
                                    [](Context c) -> std::unique_ptr<Device> {
                                      static_cast<void>(cpu_isa());
                                      return std::make_unique<EmulatedDevice>(c);
                                    },
                                    "LOCUS_EMULATED_GPUS sets the number of emulated GPUs"});
  return true;
}

void register_no_gpus() {
  register_device(DeviceType::gpu,
                  {"gpu", [] { return 0; }, nullptr,
                   "use cpu(0), or set LOCUS_EMULATED_GPUS=N for N emulated ones"});
}

}  // namespace locus
