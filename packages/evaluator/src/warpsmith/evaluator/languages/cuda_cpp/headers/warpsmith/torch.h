// A stand-in for torch's C++ API in host code that is recorded: what allocates, views, moves and launches.
//
// torch's own headers take a minute to parse; this one takes parts of a second. What it lacks is a compile error.
#pragma once

#include <warpsmith/accessor.h>
#include <warpsmith/bind.h>
#include <warpsmith/cuda.h>
#include <warpsmith/dispatch.h>
#include <warpsmith/tensor.h>
#include <warpsmith/types.h>
#include <warpsmith/values.h>
