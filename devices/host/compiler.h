// The machine's C++ compiler, which compiles kernels at run time. Threads: any.
#pragma once

#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/program.h>

namespace locus {

struct HostCompiler {
  std::string path;
  std::string version;  // the file's size and time: another compiler makes other code
};

const char* built_compiler();  // the path of the compiler that built Locus; written by the build
// The program that LOCUS_CXX names, if it is set; else the compiler that built Locus, else the
// first of c++, g++ and clang++ on PATH. Throws UnsupportedOnContext if there is none.
HostCompiler find_host_compiler(const std::string& who, Context c);

// The options for cpu_isa(), and those of the source.
std::vector<std::string> host_options(const ProgramSource& source);

// Runs the compiler and returns a shared library. The messages of SourceError name places as the
// text does. Throws Error if the compiler cannot run, or if a file cannot be written.
std::string compile_on_host(const HostCompiler& compiler, const ProgramSource& source, Context c);

}  // namespace locus
