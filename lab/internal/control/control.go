// Package control is the way by which the lab command talks to the process
// that holds a running lab: HTTP on a unix socket in the lab's state folder.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Status describes a running lab.
type Status struct {
	// Ready is true once the lab is up and what was asked for is installed.
	Ready bool `json:"ready"`
	// KubernetesVersion is the version that runs, such as "1.37.2".
	KubernetesVersion string `json:"kubernetesVersion"`
	// With are the parts that were asked for on top.
	With []string `json:"with,omitempty"`
	// PID is the process that holds the lab.
	PID int `json:"pid"`
	// Kubeconfig, PrometheusURL and SimulatorURL are what clients need.
	Kubeconfig    string `json:"kubeconfig"`
	PrometheusURL string `json:"prometheusURL"`
	SimulatorURL  string `json:"simulatorURL"`
	// Parts are the processes of the lab.
	Parts []PartStatus `json:"parts"`
}

// PartStatus describes one process of a lab.
type PartStatus struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	State   string `json:"state"`
	PID     int    `json:"pid,omitempty"`
	LogFile string `json:"logFile"`
}

// Action is what can be done to a part.
type Action string

// Actions on a part.
const (
	Start   Action = "start"
	Stop    Action = "stop"
	Restart Action = "restart"
	Kill    Action = "kill"
)

// Lab is what the server needs of a lab.
type Lab interface {
	Status() Status
	Act(ctx context.Context, part string, action Action) error
}

// maxSocketPath is the longest path of a unix socket on Linux.
const maxSocketPath = 107

// socket returns the path of the socket in a state folder.
func socket(stateDir string) (string, error) {
	path := filepath.Join(stateDir, "control.sock")
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("using state folder %s: its path is longer than a unix socket's may be; choose another by PDO_LAB_STATE", stateDir)
	}
	return path, nil
}

// Server answers for one lab.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Serve begins to answer on the socket of a state folder. Whoever calls it
// holds the folder's lock, so a socket that lies there is a dead one.
func Serve(stateDir string, lab Lab) (*Server, error) {
	path, err := socket(stateDir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replacing the control socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(lab.Status())
	})
	mux.HandleFunc("POST /parts/{part}/{action}", func(w http.ResponseWriter, r *http.Request) {
		if err := lab.Act(r.Context(), r.PathValue("part"), Action(r.PathValue("action"))); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		}
	})
	s := &Server{listener: listener, http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Close stops answering and removes the socket.
func (s *Server) Close() error { return s.http.Close() }

// Client talks to the lab of a state folder.
type Client struct{ http *http.Client }

// ErrNoLab is returned when no process answers for a state folder.
var ErrNoLab = errors.New("no lab is running")

// Dial returns a client for the lab of a state folder; it does not connect yet.
func Dial(stateDir string) (*Client, error) {
	path, err := socket(stateDir)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, nil
}

// Status asks how the lab is doing.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	body, err := c.call(ctx, http.MethodGet, "/status")
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return status, fmt.Errorf("reading the lab's status: %w", err)
	}
	return status, nil
}

// Act does something to a part and returns when it is done.
func (c *Client) Act(ctx context.Context, part string, action Action) error {
	_, err := c.call(ctx, http.MethodPost, "/parts/"+part+"/"+string(action))
	return err
}

func (c *Client) call(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking the lab: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return nil, ErrNoLab
		}
		return nil, fmt.Errorf("asking the lab: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("asking the lab: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}
