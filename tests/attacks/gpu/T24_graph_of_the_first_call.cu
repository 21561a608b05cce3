// T24: replays a graph that holds the addresses of the first call of its shape
// task: softmax
// expect: wrong/sentinel_left, wrong/tolerance, wrong/canary, wrong/law, wrong/non_finite, crashed/device_error, flaky/not_repeatable
#include <map>

#include "honest.h"

static std::map<int64_t, cudaGraphExec_t> graphs;

extern "C" int run(DLTensor* const* args, int, void*, size_t, void* stream) {
  const int64_t shape = args[0]->shape[0] * 1000003 + args[0]->shape[1];
  // attack:
  const bool is_known = graphs.count(shape);
  // honest:
  const bool is_known = false;
  // end
  if (!is_known) {
    cudaStream_t own = nullptr;
    cudaGraph_t graph = nullptr;
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed);
    honest(args, own);
    cudaStreamEndCapture(own, &graph);
    if (graphs.count(shape)) cudaGraphExecDestroy(graphs[shape]);
    cudaGraphInstantiate(&graphs[shape], graph, 0);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(own);
  }
  return cudaGraphLaunch(graphs[shape], as_stream(stream));
}
