# Makes a test source of a page: awk -v page=nn/README.md -f tests/pages/pages.awk nn/README.md > page.cc
#
# The ```cpp blocks under one heading are one test. They run in order, in one function: a later block sees
# the names of an earlier one. A block with int main() is a program of its own. An ```output block is
# compared with what the code before it printed. Comments that stand alone in a line say more:
#   <!-- code: TEXT -->     code that the reader does not see; TEXT may span lines
#   <!-- scope -->          the next block begins a new test
#   <!-- declarations -->   the next block stands outside of functions
#   <!-- numbers vary -->   the next output has other numbers in each run
#   <!-- from FILE -->      the next block is an excerpt of FILE: the file has its lines, in this order;
#                           "..." stands for any text, and comments are not compared
# A test needs as many GPUs as its code names. Links, and programs named as build/NAME, must exist.
function words(text, parts, n, i, name) {  # "nn/README.md" gives NnREADMEMd
  n = split(text, parts, /[^A-Za-z0-9]+/)
  for (i = 1; i <= n; ++i) name = name toupper(substr(parts[i], 1, 1)) substr(parts[i], 2)
  return name
}
function quoted(text) { return "R\"page(" text ")page\"" }
function count_gpus(text, n) {
  gsub(/\/\/[^\n]*/, "", text)
  while (match(text, /gpus?\([0-9]+\)/)) {
    n = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    sub(/gpus\(/, "", n)
    if (sub(/gpu\(/, "", n)) n = n + 1
    if (n + 0 > gpus) gpus = n + 0
  }
}
function begin_test(name) {  # ends the one before
  if (body != "") {
    name = words(heading)
    if (seen[name]++) name = name seen[name]
    if (gpus > 0) body = "  LOCUS_NEEDS_ANY_GPUS(" gpus ");\n" body
    tests = tests "TEST(" suite ", " name ") {\n" body "}\n"
  }
  body = ""
  gpus = 0
}
function add(text) { body = body (body == "" ? "  test::PageRun page_run_;\n" : "") text }
function end_block(line) {
  line = "#line " first " \"" page "\"\n"
  if (excerpt) {
    tests = tests "TEST(" suite ", ExcerptInLine" first ") {\n  test::expect_excerpt(\"" excerpt "\", " \
            quoted(text) ");\n}\n"
  } else if (language == "output") {
    add("page_run_.expect(" quoted(text) ", " (vary ? "true" : "false") ");\n")
  } else if (language == "cpp") {
    count_gpus(text)
    if (sub(/int main\(\)/, "void run()", text)) {
      declared = declared "namespace program_" first " {\n" line text "}\n"
      add("program_" first "::run();\n")
    } else if (declares) {
      declared = declared line text
    } else {
      add(line text)
    }
  }
  excerpt = ""
  declares = vary = 0
}
function check(path) { checks = checks "  test::expect_path(\"" path "\");\n" }
function check_link(target, path) {
  sub(/#.*/, "", target)
  if (target == "" || target ~ /^[a-z]+:/) return
  path = page
  if (!sub(/[^\/]*$/, "", path)) path = ""
  check(path target)
}
BEGIN { suite = "Page" words(page); heading = "Beginning" }
{
  for (rest = $0; match(rest, /build\/[0-9a-z_]+/); rest = substr(rest, RSTART + RLENGTH))
    checks = checks "  test::expect_program(\"" substr(rest, RSTART + 6, RLENGTH - 6) "\");\n"
}
/^```/ {
  if (in_block) end_block()
  in_block = !in_block
  language = substr($0, 4)
  text = ""
  first = FNR + 1
  next
}
in_block {
  include = language == "cpp" && !excerpt && /^#include /
  if (include) includes = includes $0 "\n"
  text = text (include ? "" : $0) "\n"
  next
}
/^<!-- code:/ {
  hidden = 1
  sub(/^<!-- code:/, "")
  add("#line " FNR " \"" page "\"\n")
}
hidden {
  if (sub(/-->.*/, "")) hidden = 0
  add($0 "\n")
  count_gpus($0)
  next
}
/^<!-- scope -->$/ { begin_test() }
/^<!-- declarations -->$/ { declares = 1 }
/^<!-- numbers vary -->$/ { vary = 1 }
/^<!-- from .* -->$/ { excerpt = $3 }
/^#+ / {
  begin_test()
  heading = $0
}
{
  for (rest = $0; match(rest, /\]\([^) ]+\)/); rest = substr(rest, RSTART + RLENGTH))
    check_link(substr(rest, RSTART + 2, RLENGTH - 3))
}
END {
  begin_test()
  if (in_block || hidden) declared = "#error " page " ends in a block or a comment\n"
  print "// Made by tests/pages/pages.awk of " page "."
  print includes "#include <locus/locus.h>\n#include \"tests/pages/page_run.h\"\n"
  print "using namespace locus;\nnamespace {\n" declared tests
  print "TEST(" suite ", LinksExist) {\n" checks "}\n}  // namespace"
}
