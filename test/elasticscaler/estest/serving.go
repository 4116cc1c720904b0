package estest

// Serving is the manifest of a model, and of a runtime that serves it. Both are of kinds that are in no namespace.
const Serving = `
apiVersion: ome.io/v1beta1
kind: ClusterBaseModel
metadata: {name: llama}
spec:
  vendor: meta
  modelFormat: {name: safetensors, version: 1.0.0}
  modelParameterSize: 1.24B
  storage: {storageUri: "hf://meta-llama/Llama-3.2-1B-Instruct"}
---
apiVersion: ome.io/v1beta1
kind: ClusterServingRuntime
metadata: {name: vllm}
spec:
  modelSizeRange: {min: 1B, max: 2B}
  supportedModelFormats:
  - {modelFormat: {name: safetensors, version: 1.0.0}, modelFramework: {name: transformers, version: 4.43.0}, autoSelect: true, priority: 1}
  engineConfig:
    runner: {name: ome-container, image: "vllm/vllm-openai:v0.9", ports: [{containerPort: 8080}], resources: {requests: {cpu: "1"}}}
  decoderConfig:
    runner: {name: ome-container, image: "vllm/vllm-openai:v0.9", ports: [{containerPort: 8080}], resources: {requests: {cpu: "1"}}}
`
