package lab_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

// holdLab makes this test binary start a lab, name its processes and wait.
const holdLab = "LAB_TEST_HOLD"

// shared is the lab of all tests that do no harm to it.
var shared *lab.Lab

func TestMain(m *testing.M) {
	if os.Getenv(holdLab) != "" {
		hold()
	}
	os.Exit(func() int {
		var err error
		if shared, err = lab.Start(context.Background(), lab.Options{
			With:          []string{lab.MetricsServer, lab.CustomMetrics},
			HPASyncPeriod: time.Second,
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// hold starts a lab and prints its processes' ids on one line.
func hold() {
	l, err := lab.Start(context.Background(), lab.Options{StateDir: os.Getenv(holdLab)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var pids []string
	for _, part := range l.Parts() {
		pids = append(pids, strconv.Itoa(part.PID()))
	}
	fmt.Println("pids", strings.Join(pids, " "))
	select {}
}

func TestPodsServicesAndSeries(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	labels := map[string]string{"app": "llm-decode", "component": "decode"}
	deploy(t, client, namespace, "llm-decode", 3, labels)
	grouped := map[string]string{"app": "llm-decode-1", "rsg.io/group-id": "1", "rsg.io/name": "llm", "ome.io/inferenceservice": "chat"}
	deploy(t, client, namespace, "llm-decode-1", 1, grouped)

	pods := readyPods(t, client, namespace, "app=llm-decode", 3)
	addresses := map[string]bool{}
	for _, pod := range pods {
		if !strings.HasPrefix(pod.Status.PodIP, "10.1.") {
			t.Errorf("pod %s has the address %s, want one in 10.1.0.0/16", pod.Name, pod.Status.PodIP)
		}
		addresses[pod.Status.PodIP] = true
	}
	if len(addresses) != 3 {
		t.Errorf("three pods have the addresses %v", addresses)
	}

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "llm-decode"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{
			{Port: 80, TargetPort: intstr.FromInt32(8000)},
		}},
	}
	if _, err := client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=llm-decode"})
		if err != nil {
			return err
		}
		ready := map[string]bool{}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					ready[endpoint.Addresses[0]] = true
				}
			}
		}
		if fmt.Sprint(ready) != fmt.Sprint(addresses) {
			return fmt.Errorf("the Service's ready endpoints are %v, want %v", ready, addresses)
		}
		return nil
	})

	// Each pod declares two ports and is still scraped once.
	query := fmt.Sprintf(`vllm:num_requests_running{namespace=%q}`, namespace)
	var series []sample
	eventually(t, func() error {
		var err error
		if series, err = instant(t.Context(), shared, query); err != nil {
			return err
		}
		if len(series) != 4 {
			return fmt.Errorf("%s has %d series, want one for each of 4 pods: %v", query, len(series), series)
		}
		return nil
	})
	for _, one := range series {
		want := map[string]string{"group_id": "0", "component": "decode"}
		if strings.HasPrefix(one.Metric["pod"], "llm-decode-1-") {
			want = map[string]string{"group_id": "1", "rsg_name": "llm", "inferenceservice": "chat"}
		}
		for name, value := range want {
			if one.Metric[name] != value {
				t.Errorf("the series of pod %s has %s=%q, want %q", one.Metric["pod"], name, one.Metric[name], value)
			}
		}
		if !strings.HasPrefix(one.Metric["instance"], "10.1.") {
			t.Errorf("the series of pod %s has the instance %q, want the pod's address", one.Metric["pod"], one.Metric["instance"])
		}
	}

	pin := fmt.Sprintf(`{"namespace": %q, "labels": {"app": "llm-decode-1"}, "metrics": {"vllm:num_requests_running": 7}}`, namespace)
	response, err := http.Post(shared.SimulatorURL()+"/pin", "application/json", strings.NewReader(pin))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= 300 {
		t.Fatalf("pinning a metric answers %s", response.Status)
	}
	eventually(t, func() error {
		series, err := instant(t.Context(), shared, fmt.Sprintf(`vllm:num_requests_running{namespace=%q, group_id="1"}`, namespace))
		if err != nil {
			return err
		}
		if len(series) != 1 || series[0].value() != "7" {
			return fmt.Errorf("the pinned metric is %v, want 7", series)
		}
		return nil
	})
}

// A node whose Lease is not renewed is taken for lost a minute after its start,
// when no test looks any more.
func TestUsageIsWhatAnnotationsSay(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	for name, annotations := range map[string]map[string]string{
		"busy": {lab.CPUAnnotation: "1500m", lab.MemoryAnnotation: "2Gi"},
		"idle": nil,
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "example.org/engine:1"}}},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	usage := func() (map[string]corev1.ResourceList, error) {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", namespace, "pods").DoRaw(t.Context())
		if err != nil {
			return nil, err
		}
		var list struct {
			Items []struct {
				Metadata   metav1.ObjectMeta `json:"metadata"`
				Containers []struct {
					Usage corev1.ResourceList `json:"usage"`
				} `json:"containers"`
			} `json:"items"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
		pods := map[string]corev1.ResourceList{}
		for _, item := range list.Items {
			pods[item.Metadata.Name] = item.Containers[0].Usage
		}
		return pods, nil
	}
	uses := func(pod string, milliCPU, mebibytes int64) {
		t.Helper()
		eventually(t, func() error {
			pods, err := usage()
			if err != nil {
				return err
			}
			// CPU is measured between two rounds, whose distance varies a little.
			used := pods[pod]
			cpu, memory := used.Cpu().MilliValue(), used.Memory().Value()>>20
			if cpu < milliCPU*9/10 || cpu > milliCPU*11/10 || memory != mebibytes {
				return fmt.Errorf("pod %s uses %dm and %dMi, want %dm and %dMi; all there are: %v", pod, cpu, memory, milliCPU, mebibytes, pods)
			}
			return nil
		})
	}
	uses("busy", 1500, 2048)
	uses("idle", 1, 1)

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"3"}}}`, lab.CPUAnnotation)
	if _, err := client.CoreV1().Pods(namespace).Patch(t.Context(), "busy", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	uses("busy", 3000, 2048)
}

func TestNodesRenewTheirLeases(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 4 {
		t.Errorf("there are %d nodes, want 4", len(nodes.Items))
	}
	for _, node := range nodes.Items {
		eventually(t, func() error {
			lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil {
				return fmt.Errorf("the Lease of %s was never renewed", node.Name)
			}
			return nil
		})
	}
}

func TestUsersMayDoWhatTheirRolesAllow(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, admin)

	config, err := shared.UserConfig("alice", "developers")
	if err != nil {
		t.Fatal(err)
	}
	alice := kubernetes.NewForConfigOrDie(config)
	if name, groups := whoAmI(t, alice); name != "alice" || !slices.Contains(groups, "developers") {
		t.Errorf("the user is %s of %v, want alice of developers", name, groups)
	}
	if _, err := alice.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("alice, who has no role, lists pods: %v", err)
	}

	eventually(t, func() error {
		_, err := admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	config, err = shared.ServiceAccountConfig(t.Context(), namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	want := "system:serviceaccount:" + namespace + ":default"
	if name, _ := whoAmI(t, kubernetes.NewForConfigOrDie(config)); name != want {
		t.Errorf("the ServiceAccount is %s, want %s", name, want)
	}

	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := lab.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	read, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := whoAmI(t, kubernetes.NewForConfigOrDie(read)); name != want {
		t.Errorf("by its kubeconfig the ServiceAccount is %s, want %s", name, want)
	}
}

func TestPartsStopAndStart(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)

	prometheus := shared.Part(lab.Prometheus)
	if err := prometheus.Stop(); err != nil {
		t.Fatal(err)
	}
	if prometheus.Running() {
		t.Error("Prometheus counts as running after Stop")
	}
	if _, err := instant(t.Context(), shared, "up"); err == nil {
		t.Error("Prometheus answers after Stop")
	}
	if err := prometheus.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := instant(t.Context(), shared, "up"); err != nil {
		t.Errorf("Prometheus does not answer at its old address: %v", err)
	}

	for _, name := range []string{lab.APIServer, lab.Etcd} {
		part := shared.Part(name)
		before := part.PID()
		if err := part.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := part.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if part.PID() == before {
			t.Errorf("%s has its old process id after a kill", name)
		}
		eventually(t, func() error {
			_, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
			return err
		})
	}
	if text, err := shared.Part(lab.APIServer).Logs(5); err != nil || text == "" {
		t.Errorf("the API server's log is %q (%v)", text, err)
	}
	// The others reconnect by themselves.
	deploy(t, client, namespace, "after", 1, map[string]string{"app": "after"})
	readyPods(t, client, namespace, "app=after", 1)

	unknown := shared.Part("kubelet")
	if err := unknown.Stop(); err == nil || !strings.Contains(err.Error(), lab.Kwok) {
		t.Errorf("stopping an unknown part gives %v, want the list of parts", err)
	}
}

func TestWebhooksAreReached(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	server := serveTLS(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the harbour is closed"}}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	address := server.URL + "/validate"
	fail := admissionregistrationv1.Fail
	none := admissionregistrationv1.SideEffectClassNone
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "harbour.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: shared.CABundle()},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		}},
	}
	api := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), webhook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), namespace, metav1.DeleteOptions{}) })
	eventually(t, func() error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
		_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		switch {
		case err == nil:
			return errors.New("a Secret is created, want the webhook's refusal")
		case !strings.Contains(err.Error(), "the harbour is closed"):
			return fmt.Errorf("creating a Secret is refused by another than the webhook: %w", err)
		default:
			return nil
		}
	})
}

func TestAggregatedAPIsAreReached(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	namespace := newNamespace(t, client)
	users := make(chan string, 100)
	server := serveTLS(t, "aggregated."+namespace+".svc", func(w http.ResponseWriter, r *http.Request) {
		select {
		case users <- r.Header.Get("X-Remote-User"):
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "aggregated.example.com/v1",
		})
	})
	_, portText, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "aggregated"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1",
		"kind":       "APIService",
		"metadata":   map[string]any{"name": "v1.aggregated.example.com"},
		"spec": map[string]any{
			"group": "aggregated.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"caBundle": base64.StdEncoding.EncodeToString(shared.CABundle()),
			"service":  map[string]any{"namespace": namespace, "name": "aggregated", "port": int64(port)},
		},
	}}
	api := dynamic.NewForConfigOrDie(shared.AdminConfig()).Resource(
		schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	if _, err := api.Create(t.Context(), registration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), registration.GetName(), metav1.DeleteOptions{}) })
	eventually(t, func() error {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/apis/aggregated.example.com/v1").DoRaw(t.Context())
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("aggregated.example.com/v1")) {
			return fmt.Errorf("the aggregated API answers %s", text)
		}
		for len(users) > 0 {
			if <-users == "lab-admin" {
				return nil
			}
		}
		return errors.New("the aggregated API has not seen the caller's name")
	})
}

func TestFurtherProcessesAreSupervised(t *testing.T) {
	port, err := shared.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	part, err := shared.Run(t.Context(), lab.ProcessSpec{Name: "sleeper", Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Run(t.Context(), lab.ProcessSpec{Name: "sleeper", Path: "/bin/sleep", Args: []string{"600"}}); err == nil {
		t.Error("a second part of the same name is started")
	}
	if shared.Part("sleeper") != part || !part.Running() {
		t.Error("the added process is no running part of the lab")
	}
	if err := part.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err = shared.Run(t.Context(), lab.ProcessSpec{
		Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "echo the sleeper overslept; exit 4"},
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/", port),
	})
	if err == nil || !strings.Contains(err.Error(), "the sleeper overslept") {
		t.Errorf("a process that ends at once gives %v, want its output", err)
	}
}

func TestFailedStartShowsWhyAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := lab.Start(t.Context(), lab.Options{
		StateDir:       dir,
		WithoutMetrics: true,
		ExtraArgs:      map[string][]string{lab.Scheduler: {"--no-such-flag"}},
		Progress:       io.Discard,
	})
	for _, want := range []string{"starting kube-scheduler", "unknown flag: --no-such-flag"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestLabsSideBySideAndTheirEnd(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(program)
	holder.Env = append(os.Environ(), holdLab+"="+dir)
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	pids := strings.Fields(line)
	if err != nil || len(pids) != 8 || pids[0] != "pids" {
		t.Fatalf("the other process says %q (%v), want the ids of 7 parts", line, err)
	}

	// The labs' pods have the same addresses, and still each Prometheus sees its
	// own only.
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfigs", "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	other := kubernetes.NewForConfigOrDie(config)
	namespace := newNamespace(t, other)
	deploy(t, other, namespace, "elsewhere", 2, map[string]string{"app": "elsewhere"})
	readyPods(t, other, namespace, "app=elsewhere", 2)
	mine := kubernetes.NewForConfigOrDie(shared.AdminConfig())
	if _, err := mine.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace of the other lab is found in this one: %v", err)
	}
	if series, err := instant(t.Context(), shared, fmt.Sprintf(`up{namespace=%q}`, namespace)); err != nil || len(series) > 0 {
		t.Errorf("this lab's Prometheus has series of the other lab: %v (%v)", series, err)
	}
	if _, err := lab.Start(t.Context(), lab.Options{StateDir: dir, WithoutMetrics: true, Progress: io.Discard}); err == nil || !strings.Contains(err.Error(), "another lab runs in") {
		t.Errorf("a second lab in the same folder gives %v", err)
	}

	if err := holder.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	eventually(t, func() error {
		if left := processesOf(t, dir); len(left) > 0 {
			return fmt.Errorf("processes outlive the one that started the lab: %v", left)
		}
		return nil
	})
}

// processesOf returns the command lines of running processes that have to do
// with a folder.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			// It has ended since.
			continue
		}
		if bytes.Contains(text, []byte(dir)) {
			found = append(found, string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// deploy creates a Deployment whose pods declare two ports.
func deploy(t *testing.T, client kubernetes.Interface, namespace, name string, replicas int32, labels map[string]string) {
	t.Helper()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "engine",
					Image: "example.com/engine:1",
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8000}, {Name: "transfer", ContainerPort: 9000}},
				}}},
			},
		},
	}
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func readyPods(t *testing.T, client kubernetes.Interface, namespace, selector string, count int) []corev1.Pod {
	t.Helper()
	var pods *corev1.PodList
	eventually(t, func() error {
		var err error
		if pods, err = client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector}); err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			for _, condition := range pods.Items[i].Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready != count || len(pods.Items) != count {
			return fmt.Errorf("%d of %d pods of %s are ready, want %d", ready, len(pods.Items), selector, count)
		}
		return nil
	})
	return pods.Items
}

func whoAmI(t *testing.T, client kubernetes.Interface) (name string, groups []string) {
	t.Helper()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username, review.Status.UserInfo.Groups
}

// serveTLS serves with a certificate of the shared lab for one host.
func serveTLS(t *testing.T, host string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	cert, key, err := shared.ServingCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// sample is one element of an instant query's result.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

func (s sample) value() string { return fmt.Sprint(s.Value[1]) }

func instant(ctx context.Context, l *lab.Lab, query string) ([]sample, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.PrometheusURL()+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []sample `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data.Result, nil
}

// eventually polls until the condition holds and fails with its last reason.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %v", err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
