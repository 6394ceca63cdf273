// Checks the source lines that errors name.
#pragma once

#include <algorithm>
#include <string>

#include "tests/support/contexts.h"

// The call throws an Error that ends with this file and line and names no other line.
#define EXPECT_NAMES_ITS_LINE(...)                                                                 \
  do {                                                                                             \
    const std::string at = " (at " + std::string(__FILE__) + ":" + std::to_string(__LINE__) + ")"; \
    const std::string text = message_of<Error>([&] { __VA_ARGS__; });                              \
    EXPECT_EQ(text.find(" (at "), text.size() - std::min(text.size(), at.size())) << text;         \
    EXPECT_TRUE(text.ends_with(at)) << text;                                                       \
  } while (false)
