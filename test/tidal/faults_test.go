package tidal

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

var dayAndNight = []string{"day|0 8 * * *|10", "night|0 20 * * *|2"}

func TestAFiringWhileNoControllerRunsIsCaughtUpWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T19:50:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	first := w.start()
	w.reaches("tide", "llm", 10, 1)
	first.stop()
	w.setTime("2026-06-15T20:10:00Z")
	w.start()
	w.reaches("tide", "llm", 2, 2)
}

func TestARestartBetweenFiringsWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	first := w.start()
	w.reaches("tide", "llm", 10, 1)
	first.stop()
	w.scaleByHand("llm", 7)
	var before v1alpha1.Tidal
	if err := w.get("tide", &before); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.stays("llm", 7, 2)
	var after v1alpha1.Tidal
	if err := w.get("tide", &after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status was written: %s, before %s", show(after.Status), show(before.Status))
	}
}

// writes counts what a controller asks of the API server, and lets tests come between.
type writes struct {
	scales, statuses atomic.Int64
	// outdated are the scales that were refused with a conflict.
	outdated     atomic.Int64
	beforeStatus func() error
	beforeScale  func() error
}

func (c *writes) wrap(inner client.WithWatch) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, inner client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			count, before := &c.statuses, c.beforeStatus
			if sub == "scale" {
				count, before = &c.scales, c.beforeScale
			}
			if before != nil {
				if err := before(); err != nil {
					return err
				}
			}
			count.Add(1)
			err := inner.SubResource(sub).Update(ctx, obj, opts...)
			if sub == "scale" && apierrors.IsConflict(err) {
				c.outdated.Add(1)
			}
			return err
		},
	})
}

func TestACrashBetweenTheCountAndItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T19:50:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	var dying atomic.Bool
	calls := &writes{beforeStatus: func() error {
		if dying.Load() {
			return errors.New("the process is gone")
		}
		return nil
	}}
	w.wrap = calls.wrap
	first := w.start()
	w.reaches("tide", "llm", 10, 1)
	dying.Store(true)
	w.setTime("2026-06-15T20:00:00Z")
	testkit.Eventually(t, soon, "the count of the night", func(context.Context) error {
		if got, _ := w.count("llm"); got != 2 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	first.stop()
	w.wrap = nil
	w.start()
	w.reaches("tide", "llm", 2, 2)
}

func TestACountSetMeanwhileIsNotOverwrittenUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T19:50:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	var once atomic.Bool
	calls := &writes{}
	calls.beforeScale = func() error {
		if once.CompareAndSwap(true, false) {
			w.scaleByHand("llm", 5)
		}
		return nil
	}
	w.wrap = calls.wrap
	w.start()
	w.reaches("tide", "llm", 10, 1)
	once.Store(true)
	w.setTime("2026-06-15T20:00:00Z")
	// By hand to 5, then, from there, to 2: the first attempt met the version before, and the next ones may too, since the target
	// changes on its way to 5.
	w.reaches("tide", "llm", 2, 3)
	if all, outdated := calls.scales.Load(), calls.outdated.Load(); outdated < 1 || all-outdated != 2 {
		t.Errorf("%d scale requests, %d of them refused as outdated; want one by day, one or more refused, one by night", all, outdated)
	}
	if got := calls.statuses.Load(); got != 2 {
		t.Errorf("%d records, want 2: one by day, one by night", got)
	}
	var list eventsv1.EventList
	if err := api.List(t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Type == "Warning" && e.Regarding.Kind == "Tidal" {
			t.Errorf("there is a warning: %s %s", e.Reason, e.Note)
		}
	}
}

// The end of an object while a pass is over it is no failure.
func TestATidalThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	var tries atomic.Int64
	calls := &writes{beforeStatus: func() error {
		tries.Add(1)
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("tidals").GroupResource(), "tide")
	}}
	w.wrap = calls.wrap
	w.start()
	testkit.Eventually(t, soon, "a record to be tried", func(context.Context) error {
		if tries.Load() == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	w.stays("llm", 10, 1)
	if got := tries.Load(); got != 1 {
		t.Errorf("the record was tried %d times", got)
	}
}

func TestSettledTidalsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T12:00:00Z")
	calls := &writes{}
	w.wrap = calls.wrap
	for _, name := range []string{"a", "b", "c"} {
		w.deployment(name, 1)
		w.tidal(name, name, dayAndNight...)
	}
	w.start()
	for _, name := range []string{"a", "b", "c"} {
		w.reaches(name, name, 10, 1)
	}
	scales, statuses, outdated := calls.scales.Load(), calls.statuses.Load(), calls.outdated.Load()
	// What is none of a Tidal's business: the target's count, labels and status change.
	w.scaleByHand("a", 3)
	w.scaleByHand("a", 4)
	testkit.Consistently(t, 5*time.Second, "nothing is written", func(context.Context) error {
		if s, st := calls.scales.Load(), calls.statuses.Load(); s != scales || st != statuses {
			return fmt.Errorf("%d scales and %d statuses more", s-scales, st-statuses)
		}
		return nil
	})
	if scales-outdated != 3 {
		t.Errorf("%d scale writes for 3 firings, and %d refused as outdated", scales-outdated, outdated)
	}
}

func TestALeaderChangeAcrossAFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2026-06-15T19:50:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	w.elect = true
	first := w.start()
	select {
	case <-first.elected:
	case <-time.After(soon):
		t.Fatal("nobody leads")
	}
	second := w.start()
	w.reaches("tide", "llm", 10, 1)
	// The leader goes without giving up its Lease, so the other takes over only when it has run out: after the firing.
	first.stop()
	w.setTime("2026-06-15T20:00:00Z")
	select {
	case <-second.elected:
		t.Fatal("the second leads while the first holds the Lease")
	default:
	}
	w.reaches("tide", "llm", 2, 2)
	<-second.elected
}

// Not parallel: everybody needs the API server.
func TestTheAPIServerIsDownDuringAFiring(t *testing.T) {
	w := newWorld(t, "2026-06-15T19:50:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", dayAndNight...)
	w.start()
	w.reaches("tide", "llm", 10, 1)
	server := plane.Part(lab.APIServer)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	w.setTime("2026-06-15T19:59:59Z")
	// It is down until the firing is over and has been tried.
	for deadline := w.clock.Now().Add(5 * time.Second); w.clock.Now().Before(deadline); {
		select {
		case <-t.Context().Done():
			t.Fatal("cancelled")
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the API server", func(context.Context) error {
		var tide v1alpha1.Tidal
		return w.get("tide", &tide)
	})
	w.reaches("tide", "llm", 2, 2)
}

// inAMoment returns a rule that fires within a few seconds, in the clock of the machine.
func inAMoment(name string, in time.Duration, replicas int) (string, time.Time) {
	at := time.Now().UTC().Add(in).Truncate(time.Second)
	return fmt.Sprintf("%s|%d %d %d * * *|%d", name, at.Second(), at.Minute(), at.Hour(), replicas), at
}

// ownRole is an identity that may do what the generated Roles of the component say, and nothing else.
func ownRole(t *testing.T) *rest.Config {
	t.Helper()
	account, err := testkit.InstallRoles(t.Context(), api, "../../config/rbac/tidal/role.yaml", lab.ProductNamespace)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := plane.ServiceAccountConfig(t.Context(), lab.ProductNamespace, account)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// Not parallel: this manager sees all namespaces.
func TestTheManagerIsKilledAcrossAFiring(t *testing.T) {
	w := newWorld(t, "2026-06-15T12:00:00Z")
	manager, err := plane.StartManager(t.Context(), lab.ManagerOptions{Args: []string{"--controllers=tidal"}, WithoutWebhook: true, Client: ownRole(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Stop()
	w.killedAcrossAFiring(manager, func(name string, rules ...string) (settled func(*v1alpha1.Tidal) bool) {
		w.tidal(name, name, rules...)
		return func(tidal *v1alpha1.Tidal) bool { return tidal.Status.LastScale != nil }
	}, func(name string) { w.reaches(name, name, 4, 2) })
}

// Not parallel: this manager sees all namespaces.
func TestTheManagerIsKilledAcrossAFiringOfABoundTidal(t *testing.T) {
	w := newWorld(t, "2026-06-15T12:00:00Z")
	manager, err := plane.StartManager(t.Context(), lab.ManagerOptions{Args: []string{"--controllers=tidal,elasticscaler"}, WithoutWebhook: true})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Stop()
	w.killedAcrossAFiring(manager, func(name string, rules ...string) (settled func(*v1alpha1.Tidal) bool) {
		scaler := &elasticscalerv1alpha1.ElasticScaler{}
		w.parse(strings.NewReplacer("state-scaling-example", name, "tidal-frequent-test", name).Replace(documentScaler), scaler)
		w.create(scaler, w.bind(w.makeTidal(name, w.on(appsv1.SchemeGroupVersion.WithKind("Deployment"), name), rules...), name))
		return func(*v1alpha1.Tidal) bool {
			got, _ := w.count(name)
			return got == 2
		}
	}, func(name string) {
		w.wants(name, 4, "soon")
		w.has(appsv1.SchemeGroupVersion.WithKind("Deployment"), name, 4, 2)
		w.stays(name, 4, 2)
	})
}

// killedAcrossAFiring kills a manager that has settled what create makes of a Deployment's name, and starts it again after the
// firing. The clock of a process cannot be set, so the firing has to be some seconds ahead. Where it is over before the
// manager is gone, one further ahead is taken.
func (w *world) killedAcrossAFiring(manager *lab.Part, create func(name string, rules ...string) func(*v1alpha1.Tidal) bool, caughtUp func(name string)) {
	w.Helper()
	for ahead := 8 * time.Second; ; ahead *= 2 {
		name := fmt.Sprintf("llm-%.0f", ahead.Seconds())
		w.deployment(name, 1)
		rule, at := inAMoment("soon", ahead, 4)
		before, _ := inAMoment("before", -time.Minute, 2)
		settled := create(name, before, rule)
		testkit.Eventually(w, ahead+soon, "the count before", func(context.Context) error {
			var tidal v1alpha1.Tidal
			if err := w.get(name, &tidal); err != nil {
				return err
			}
			if !settled(&tidal) && time.Now().Before(at) {
				return errors.New(show(tidal.Status))
			}
			return nil
		})
		if err := manager.Kill(); err != nil {
			w.Fatal(err)
		}
		if time.Now().Before(at) {
			<-time.After(time.Until(at.Add(time.Second)))
			if got, _ := w.count(name); got != 2 {
				w.Fatalf("%d replicas while no manager ran", got)
			}
			if err := manager.Start(w.Context()); err != nil {
				w.Fatal(err)
			}
			caughtUp(name)
			return
		}
		if ahead > time.Minute {
			w.Fatalf("it takes more than %s to write a count and kill the manager", ahead)
		}
		if err := manager.Start(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

// needsNoFiles looks into a program: it must be linked with all that it runs, and hold the zone database.
func needsNoFiles(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a dynamic linker")
		}
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program needs the libraries %q (%v)", libraries, err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"Asia/Shanghai", "Australia/Lord_Howe", "Pacific/Apia"} {
		if !bytes.Contains(text, []byte(zone)) {
			t.Errorf("the program does not hold the zone %s", zone)
		}
	}
}

// within starts a process in another root. Who is not root is root in a user namespace of the process.
func within(root string) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// Not parallel: this manager sees all namespaces.
func TestTheManagerRunsInAnEmptyRootFileSystem(t *testing.T) {
	w := newWorld(t, "2026-06-15T12:00:00Z")
	w.deployment("llm", 1)
	w.tidal("tide", "llm", "always|CRON_TZ=Asia/Shanghai 0 0 8 * * *|3", "lord-howe|CRON_TZ=Australia/Lord_Howe 0 0 1 1 *|1")

	program, err := plane.BuildCommand(t.Context(), ".", "./cmd/pd-orchestrator")
	if err != nil {
		t.Fatal(err)
	}
	needsNoFiles(t, program)
	root := t.TempDir()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	health, err := plane.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "pd-orchestrator"), text, 0o700),
		lab.WriteKubeconfig(filepath.Join(root, "kubeconfig"), ownRole(t)),
		os.WriteFile(filepath.Join(root, "config.yaml"), fmt.Appendf(nil, `apiVersion: config.pd-orchestrator.io/v1alpha1
kind: ManagerConfiguration
health: {bindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
`, health), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, "/pd-orchestrator", "--config=/config.yaml", "--kubeconfig=/kubeconfig", "--controllers=tidal")
	command.Path, command.Dir, command.Err = "/pd-orchestrator", "/", nil
	command.Stdout, command.Stderr = log, log
	command.Env = []string{}
	command.SysProcAttr = within(root)
	if err := command.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Log("nobody but root may change the root of a process here; what the program is made of has been looked at")
		return
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = command.Wait() // It was killed, and says so.
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("the manager said:\n%s", out)
		}
	}()
	testkit.Eventually(t, soon, "the manager to be ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", health), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	w.says("tide", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.says("tide", v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonReconciled)
	w.reaches("tide", "llm", 3, 1)
}
