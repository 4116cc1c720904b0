// Package client calls the control API of a simulator.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// Client calls the control API at one address.
type Client struct {
	base string
	http *http.Client
}

// New returns a client for the control API at a URL such as http://127.0.0.1:9401. It uses the given HTTP client, or
// http.DefaultClient for nil.
func New(controlURL string, httpClient *http.Client) *Client {
	if httpClient == nil {
		httpClient = http.DefaultClient
	}
	return &Client{base: strings.TrimSuffix(controlURL, "/"), http: httpClient}
}

// Pin puts a pin into force. A pin that is not valid is an error that wraps api.Errors.
func (c *Client) Pin(ctx context.Context, pin api.Pin) error {
	return c.do(ctx, http.MethodPost, "/pin", pin, nil)
}

// Unpin takes away the pins with exactly this selector and returns how many there were.
func (c *Client) Unpin(ctx context.Context, selector api.Selector) (int, error) {
	var removed api.Removed
	err := c.do(ctx, http.MethodDelete, "/pin", selector, &removed)
	return removed.Removed, err
}

// UnpinAll takes away all pins and returns how many there were.
func (c *Client) UnpinAll(ctx context.Context) (int, error) {
	var removed api.Removed
	err := c.do(ctx, http.MethodDelete, "/pin", nil, &removed)
	return removed.Removed, err
}

// Pins returns the pins in force, oldest first.
func (c *Client) Pins(ctx context.Context) ([]api.Pin, error) {
	var list api.PinList
	err := c.do(ctx, http.MethodGet, "/pin", nil, &list)
	return list.Pins, err
}

// Load puts a load into force, in place of the one of its name. A load that is not valid is an error that wraps api.Errors.
func (c *Client) Load(ctx context.Context, load api.Load) error {
	return c.do(ctx, http.MethodPost, "/load", load, nil)
}

// Loads returns the loads in force, the oldest first, with their defaults.
func (c *Client) Loads(ctx context.Context) ([]api.Load, error) {
	var list api.LoadList
	err := c.do(ctx, http.MethodGet, "/load", nil, &list)
	return list.Loads, err
}

// StopLoad stops the load of a name, or all for "", and returns how many there were. Requests that have arrived are still
// served, but with discard they are dropped.
func (c *Client) StopLoad(ctx context.Context, name string, discard bool) (int, error) {
	query := url.Values{"discard": {strconv.FormatBool(discard)}}
	if name != "" {
		query.Set("name", name)
	}
	var removed api.Removed
	err := c.do(ctx, http.MethodDelete, "/load?"+query.Encode(), nil, &removed)
	return removed.Removed, err
}

// State returns the state of all services and pods.
func (c *Client) State(ctx context.Context) (api.State, error) {
	var state api.State
	err := c.do(ctx, http.MethodGet, "/state", nil, &state)
	return state, err
}

// maxAnswer bounds an answer, in bytes: the state of many thousand pods.
const maxAnswer = 64 << 20

func (c *Client) do(ctx context.Context, method, path string, document, into any) error {
	what := method + " " + c.base + path
	var body io.Reader
	if document != nil {
		data, err := json.Marshal(document)
		if err != nil {
			return fmt.Errorf("%s: encoding the request: %w", what, err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("calling the simulator: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: reading the answer: %w", what, err)
	}
	if response.StatusCode != http.StatusOK {
		var refusal api.ErrorBody
		if err := json.Unmarshal(data, &refusal); err != nil || len(refusal.Errors) == 0 {
			return fmt.Errorf("%s: status %s: %s", what, response.Status, bytes.TrimSpace(data))
		}
		return fmt.Errorf("%s: %w", what, refusal.Errors)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: decoding the answer: %w", what, err)
	}
	return nil
}
