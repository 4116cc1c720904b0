package simulator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// WatchPods keeps the simulator's pods equal to the API server's, in all namespaces, until ctx ends. synced is called once
// the pods of the start are known. It returns nil when ctx ends, and an error when the watch cannot be set up.
func (s *Simulator) WatchPods(ctx context.Context, config *rest.Config, synced func()) error {
	client, err := podClient(config)
	if err != nil {
		return fmt.Errorf("building the client that watches pods: %w", err)
	}
	informer := cache.NewSharedInformer(
		cache.NewListWatchFromClient(client, "pods", corev1.NamespaceAll, fields.Everything()), &corev1.Pod{}, 0)
	if err := informer.SetTransform(stripPod); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { s.setObject(obj) },
		UpdateFunc: func(old, obj any) {
			// A pod deleted and made again while the watch was down arrives as one update.
			if before, ok := old.(*corev1.Pod); ok {
				if after, ok := obj.(*corev1.Pod); ok && before.UID != after.UID {
					s.DeletePod(string(before.UID))
				}
			}
			s.setObject(obj)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				s.DeletePod(string(pod.UID))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		synced()
	}
	<-ended
	if ctx.Err() == nil {
		return errors.New("watching pods: the watch ended early")
	}
	return nil
}

func (s *Simulator) setObject(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		s.SetPod(podOf(pod))
	}
}

// podClient returns a client for core/v1 alone, which spares the memory of a clientset for all groups.
func podClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "pd-orchestrator-simulator"
	return rest.RESTClientFor(config)
}

// stripPod drops what the simulator never reads, which is most of a pod.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	pod.Spec.Volumes = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i] = corev1.Container{Ports: containers[i].Ports}
		}
	}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	return pod, nil
}
