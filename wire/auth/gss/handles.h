// Owners of the GSS library's objects.
#pragma once

#include <gssapi/gssapi.h>

#include <string>
#include <string_view>
#include <utility>

namespace dafs::auth {

// A name, a credential or a context.
template <class T, auto kRelease>
class GssHandle {
 public:
  GssHandle() = default;
  ~GssHandle() {
    OM_uint32 minor = 0;
    if (value_ != nullptr) kRelease(&minor, &value_);
  }
  GssHandle(const GssHandle&) = delete;
  GssHandle& operator=(const GssHandle&) = delete;

  T get() const { return value_; }
  T* out() { return &value_; }  // for a function that sets or replaces it

 private:
  T value_ = nullptr;
};

inline OM_uint32 ReleaseContext(OM_uint32* minor, gss_ctx_id_t* context) {
  return gss_delete_sec_context(minor, context, GSS_C_NO_BUFFER);
}

using GssName = GssHandle<gss_name_t, gss_release_name>;
using GssCredential = GssHandle<gss_cred_id_t, gss_release_cred>;
using GssContext = GssHandle<gss_ctx_id_t, ReleaseContext>;

// A buffer that the library allocates.
class GssBuffer {
 public:
  GssBuffer() = default;
  ~GssBuffer() {
    OM_uint32 minor = 0;
    gss_release_buffer(&minor, &value_);
  }
  GssBuffer(const GssBuffer&) = delete;
  GssBuffer& operator=(const GssBuffer&) = delete;

  gss_buffer_t out() { return &value_; }
  std::string text() const {
    return value_.length == 0 ? ""
                              : std::string(static_cast<const char*>(value_.value), value_.length);
  }

 private:
  gss_buffer_desc value_ = GSS_C_EMPTY_BUFFER;
};

// A view for an argument, which the library only reads.
inline gss_buffer_desc BufferOf(std::string_view bytes) {
  return {.length = bytes.size(), .value = const_cast<char*>(bytes.data())};
}

}  // namespace dafs::auth
