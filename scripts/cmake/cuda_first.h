// LocusLibrary.cmake includes this header first in every .cu file of the library.
//
// In each .cu file nvcc writes a constructor function that registers the kernels with the CUDA
// runtime. Without a priority, it runs after the constructors of a program that links the library
// statically: a global `Tensor x = ones({2}, gpu(0))` would launch an unregistered kernel.
// Constructors with a priority run first.
#pragma once

#define __constructor__ __constructor__(101)
