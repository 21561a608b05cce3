// The kernel contract of evokern for C dialects, and a few helpers. A source may spell these structs out instead.
//
//   extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t workspace_bytes, void* stream);
//
// Arguments come in the task's order; scalars are 0-d tensors in host memory. Strides count elements and are never null. A row
// may be padded (strides[0] >= shape[1]); the innermost stride is 1. byte_offset is 0: element (0, 0) lies at data, at an
// address that is aligned for the element type and for nothing wider. A return value other than 0 refuses the call.
//
// args, the structs, their shapes and strides, and scalars live for one call only: the next call's lie elsewhere.
//
//   extern "C" size_t workspace_size(DLTensor* const* args, int nargs);
//
// A source may have it; without it there is no workspace. It is asked about shapes before the first call, more of them than will
// come, and must not read data. A call gets as many bytes as were said for its shapes, whatever its strides are; null for 0.
// Nothing is known of what they hold, from one call to the next either.
//
// Memory before the first element of a tensor and after its last one may not be mapped: not even a load may reach there.
// Values may be very low, all equal, or in part -inf (masked), wherever what the task asks for is finite then.
//
// The structs have the layout of DLPack 0.8, https://github.com/dmlc/dlpack.
#ifndef EVOKERN_H_
#define EVOKERN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t device_type;  // 1 is the CPU
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

#ifdef __cplusplus
}  // extern "C"

namespace evokern {

// Address of the first element.
template <typename T>
inline T* data(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

// Elements from one row of a matrix to the next.
inline int64_t row_stride(const DLTensor* tensor) {
  return tensor->strides ? tensor->strides[0] : tensor->shape[tensor->ndim - 1];
}

// Value of a 0-d host tensor.
template <typename T>
inline T scalar(const DLTensor* tensor) {
  return *data<T>(tensor);
}

}  // namespace evokern
#endif

#endif  // EVOKERN_H_
