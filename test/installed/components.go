// Package installed has the components of a Helm release run in a lab. A lab has no container runtime, so what the pod of each
// Deployment would run is run as a process: with the arguments, the environment and the files that the chart rendered, and a
// token of the ServiceAccount that it made. Only tests import it.
package installed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	product        = "pd-orchestrator"
)

// Components are the running components of a release, by their names.
type Components map[string]*Component

// Component is one of them.
type Component struct {
	*lab.Part
	// Ports are where it serves on loopback, by the names of the container's ports.
	Ports map[string]int
	// Changes are what a process on this machine needs otherwise than a pod.
	Changes []string
}

// Run starts a process for each Deployment of the product in a namespace, and waits until all are ready. What the webhooks are
// served on comes into their configuration.
func Run(ctx context.Context, plane *lab.Lab, api client.Client, namespace string) (Components, error) {
	program, err := plane.BuildCommand(ctx, ".", "./cmd/pd-orchestrator")
	if err != nil {
		return nil, err
	}
	var deployments appsv1.DeploymentList
	if err := api.List(ctx, &deployments, client.InNamespace(namespace), client.MatchingLabels{labelName: product}); err != nil {
		return nil, err
	}
	if len(deployments.Items) == 0 {
		return nil, fmt.Errorf("there is no Deployment of %s in namespace %s", product, namespace)
	}
	running := Components{}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		c, err := run(ctx, plane, api, program, d)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("running what Deployment %s would run: %w", d.Name, err), running.Stop())
		}
		running[d.Labels[labelComponent]] = c
	}
	return running, nil
}

// Stop stops all of them.
func (c Components) Stop() error {
	var errs []error
	for name, component := range c {
		if err := component.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Forbidden returns an error with the lines of their logs that tell of a right that their account lacks.
func (c Components) Forbidden() error {
	var errs []error
	for name, component := range c {
		text, err := os.ReadFile(filepath.Clean(component.LogFile()))
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.Contains(line, "forbidden: User") {
				errs = append(errs, fmt.Errorf("the account of %s lacks a right: %s", name, line))
			}
		}
	}
	return errors.Join(errs...)
}

func run(ctx context.Context, plane *lab.Lab, api client.Client, program string, d *appsv1.Deployment) (*Component, error) {
	c := &Component{Ports: map[string]int{}}
	if n := *d.Spec.Replicas; n != 1 {
		c.Changes = append(c.Changes, fmt.Sprintf("one process in place of %d pods", n))
	}
	pod := &d.Spec.Template.Spec
	container := &pod.Containers[0]
	dir := filepath.Join(plane.StateDir(), d.Name)
	// Paths and ports of a pod, and what is there in their place.
	var replacements []string
	for _, mount := range container.VolumeMounts {
		path := filepath.Join(dir, mount.Name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		replacements = append(replacements, mount.MountPath, path)
	}
	for _, port := range container.Ports {
		free, err := plane.ReservePort()
		if err != nil {
			return nil, err
		}
		c.Ports[port.Name] = free
		replacements = append(replacements, fmt.Sprintf(`":%d"`, port.ContainerPort), fmt.Sprintf(`"127.0.0.1:%d"`, free))
	}
	c.Changes = append(c.Changes, fmt.Sprintf("ports of loopback: %v", c.Ports), "folders in place of volumes: "+dir)
	here := strings.NewReplacer(replacements...)
	webhook := fmt.Sprintf("\nwebhook:\n  certDir: %q\n  dnsNames: [%s]\n", filepath.Join(dir, "certificate"), lab.WebhookHost)
	for _, volume := range pod.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		files := &corev1.ConfigMap{}
		if err := api.Get(ctx, types.NamespacedName{Namespace: d.Namespace, Name: volume.ConfigMap.Name}, files); err != nil {
			return nil, err
		}
		for name, text := range files.Data {
			text = strings.Replace(here.Replace(text), "\nwebhook:\n", webhook, 1)
			if err := os.WriteFile(filepath.Join(dir, volume.Name, name), []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
	}
	if err := redirect(ctx, api, d, int32(c.Ports["webhook"])); err != nil {
		return nil, err
	}
	c.Changes = append(c.Changes, "webhook.certDir, webhook.dnsNames, and an ExternalName as the webhook's Service: "+lab.WebhookHost)
	identity, err := plane.ServiceAccountConfig(ctx, d.Namespace, pod.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := lab.WriteKubeconfig(kubeconfig, identity); err != nil {
		return nil, err
	}
	args := []string{"--kubeconfig=" + kubeconfig}
	for _, arg := range container.Args {
		args = append(args, here.Replace(arg))
	}
	environment, err := environmentOf(container)
	if err != nil {
		return nil, err
	}
	c.Part, err = plane.Run(ctx, lab.ProcessSpec{
		Name: d.Name, Path: program, Args: args, Env: environment,
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d%s", c.Ports["health"], container.ReadinessProbe.HTTPGet.Path),
		// Of a lease that another process has not given up.
		StartTimeout: time.Minute,
		StopTimeout:  time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second,
	})
	return c, err
}

// environmentOf is the environment of a container as KEY=value.
func environmentOf(container *corev1.Container) ([]string, error) {
	var all []string
	for _, e := range container.Env {
		value := e.Value
		if from := e.ValueFrom; from != nil {
			if from.ResourceFieldRef == nil || from.ResourceFieldRef.Resource != "limits.memory" {
				return nil, fmt.Errorf("environment variable %s comes from what this package does not know", e.Name)
			}
			value = fmt.Sprint(container.Resources.Limits.Memory().Value())
		}
		all = append(all, e.Name+"="+value)
	}
	return all, nil
}

// redirect has the API server find the webhook of a component on a port of this machine.
func redirect(ctx context.Context, api client.Client, d *appsv1.Deployment, port int32) error {
	var hooks admissionregistrationv1.ValidatingWebhookConfigurationList
	component := d.Labels[labelComponent]
	if err := api.List(ctx, &hooks, client.MatchingLabels{labelName: product, labelComponent: component}); err != nil {
		return err
	}
	if len(hooks.Items) != 1 {
		return fmt.Errorf("there are %d webhook configurations of %s, want 1", len(hooks.Items), component)
	}
	hook := &hooks.Items[0]
	before := client.MergeFrom(hook.DeepCopy())
	for i := range hook.Webhooks {
		to := hook.Webhooks[i].ClientConfig.Service
		to.Port = &port
		service := &corev1.Service{}
		if err := api.Get(ctx, types.NamespacedName{Namespace: to.Namespace, Name: to.Name}, service); err != nil {
			return err
		}
		patch := client.MergeFrom(service.DeepCopy())
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: lab.WebhookHost, Ports: service.Spec.Ports}
		if err := api.Patch(ctx, service, patch); err != nil {
			return err
		}
	}
	return api.Patch(ctx, hook, before)
}
