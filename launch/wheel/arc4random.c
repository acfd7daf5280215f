// What a static C++ library asks glibc 2.36 for, from older ones: the numbers of std::random_device.
#include <stdint.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t number;
    while (getrandom(&number, sizeof number, 0) != sizeof number) {
    }
    return number;
}
