// The threads on which the verbs provider lists devices. The device list comes from this file.
// Without any device the provider lists none.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/verbs.h"

namespace {

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
std::set<pid_t>& Listers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static std::set<pid_t> threads;
  return threads;
}

}  // namespace

// Replace the functions of libibverbs, for librdmacm too.
extern "C" ibv_device** ibv_get_device_list(int* count) {
  absl::MutexLock lock(&mutex);
  Listers().insert(gettid());
  if (count != nullptr) *count = 0;
  return static_cast<ibv_device**>(std::calloc(1, sizeof(void*)));
}
extern "C" void ibv_free_device_list(ibv_device** list) { std::free(list); }

namespace dafs::dat {
namespace {

// If several threads list devices, librdmacm loses devices and then hangs
// (wire/dat/verbs/opener.h).
TEST(VerbsDevicesTest, OneThreadListsTheDevicesForAllCallers) {
  const char* host = std::getenv("DAFS_TEST_RDMA_ADDRESS");
  if (host == nullptr) GTEST_SKIP() << "DAFS_TEST_RDMA_ADDRESS names no device's address";
  const auto addresses = ResolveHost(host, 1);
  ASSERT_TRUE(addresses.ok());
  const Address& address = addresses->front();
  auto provider = NewVerbsProvider();
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&provider, &address, i] {
      if (i % 2 == 0) {
        EXPECT_FALSE(provider->Listen(address).ok());
      } else {
        EXPECT_FALSE(provider->Resolve(address, "", absl::Seconds(1)).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  absl::MutexLock lock(&mutex);
  EXPECT_EQ(Listers().size(), 1u);
}

}  // namespace
}  // namespace dafs::dat
