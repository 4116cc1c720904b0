package simulator

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func kubernetesPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "uid", Namespace: "production", Name: "llm-0", Labels: map[string]string{"app": "llm"},
			CreationTimestamp: metav1.Unix(100, 0), ResourceVersion: "5",
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "proxy", Ports: []corev1.ContainerPort{{ContainerPort: 9000}}}},
			Containers: []corev1.Container{{Name: "engine", Image: "engine", Ports: []corev1.ContainerPort{
				{ContainerPort: 8000, Protocol: corev1.ProtocolTCP}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 8000},
			}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func TestPodOf(t *testing.T) {
	base := Pod{
		UID: "uid", Namespace: "production", Name: "llm-0", Labels: map[string]string{"app": "llm"},
		Address: netip.MustParseAddr("10.1.0.1"), Ports: []int32{8000, 9000}, Running: true, Ready: true, ModelName: "simulated", Created: 100,
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*Pod)
	}{
		"running and ready": {},
		"pending without an address": {
			change: func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodPending}
			},
			want: func(p *Pod) { p.Address, p.Running, p.Ready = netip.Addr{}, false, false },
		},
		"not ready": {
			change: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
			want:   func(p *Pod) { p.Ready = false },
		},
		"being deleted": {
			change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
			want:   func(p *Pod) { p.Ready = false },
		},
		"failed": {
			change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
			want:   func(p *Pod) { p.Running, p.Ready = false, false },
		},
		"model named by a label": {
			change: func(p *corev1.Pod) { p.Labels[ModelNameKey] = "labelled" },
			want:   func(p *Pod) { p.Labels[ModelNameKey], p.ModelName = "labelled", "labelled" },
		},
		"model named by an annotation": {
			change: func(p *corev1.Pod) {
				p.Labels[ModelNameKey] = "labelled"
				p.Annotations = map[string]string{ModelNameKey: "some/model"}
			},
			want: func(p *Pod) { p.Labels[ModelNameKey], p.ModelName = "labelled", "some/model" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := base
			want.Labels = map[string]string{"app": "llm"}
			pod := kubernetesPod()
			if tt.change != nil {
				tt.change(pod)
				if tt.want != nil {
					tt.want(&want)
				}
			}
			stripped, err := stripPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, podOf(stripped.(*corev1.Pod)), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

// newAPIServer plays an API server that lists one pod and, once replace is closed, reports that another pod took its place.
func newAPIServer(t *testing.T, replace <-chan struct{}) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/api/v1/pods":
			http.NotFound(w, r)
		case query.Get("sendInitialEvents") != "":
			// As a server without streaming lists does.
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
			})
		case query.Get("watch") == "":
			_ = json.NewEncoder(w).Encode(corev1.PodList{
				TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "5"},
				Items: []corev1.Pod{*kubernetesPod()},
			})
		default:
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-replace:
			case <-r.Context().Done():
				return
			}
			again := kubernetesPod(func(p *corev1.Pod) {
				p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
				p.UID, p.ResourceVersion, p.Status.PodIP = "other", "6", "10.1.0.2"
			})
			object, err := json.Marshal(again)
			if err != nil {
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": json.RawMessage(object)})
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func TestWatchPods(t *testing.T) {
	replace := make(chan struct{})
	server := newAPIServer(t, replace)
	s := New(newClock().Now)
	ctx, cancel := context.WithCancel(t.Context())
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.WatchPods(ctx, &rest.Config{Host: server.URL}, func() { close(synced) }) }()
	wait(t, synced, "the pods of the start to be known")
	if pods := s.State().Pods; len(pods) != 1 || pods[0].MetricsAddress != "127.1.0.1" {
		t.Errorf("pods after the list: %+v", pods)
	}

	close(replace)
	eventually(t, "one pod to take the place of the other", func() bool {
		pods := s.State().Pods
		return len(pods) == 1 && pods[0].Address == "10.1.0.2"
	})

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

// eventually asks again and again until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func wait(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("timed out waiting for %s", what)
	}
}
