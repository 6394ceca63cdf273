// Every .cu file of the library is compiled with this header in front (LocusLibrary.cmake).
//
// nvcc writes a constructor function into each .cu file that registers its kernels with the CUDA
// runtime. Without a priority it runs behind the constructors of a program that links the library
// as a static archive: a global `Tensor x = ones({2}, gpu(0))` would launch a kernel that is not
// registered. Constructors with a priority run first.
#pragma once

#define __constructor__ __constructor__(101)
