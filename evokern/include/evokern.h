// The kernel contract of evokern for C dialects, and a few helpers. A source may spell these structs out instead.
//
//   extern "C" int run(DLTensor* const* args, int nargs, void* workspace, size_t workspace_bytes, void* stream);
//
// Arguments come in the task's order; scalars are 0-d tensors in host memory. Strides count elements. A row may be padded
// (strides[0] >= shape[1]); the innermost stride is 1. Element (0, 0) lies byte_offset bytes after data, at an address that
// is aligned for the element type and for nothing wider. A return value other than 0 refuses the call.
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
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 6 bool
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
