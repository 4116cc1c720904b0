package faulty_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
)

// patience bounds what must happen at once, in real time.
const patience = 20 * time.Second

func TestQueriesAreAnsweredAsPrometheusDoes(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	client, err := promapi.NewClient(promapi.Config{Address: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	api := promv1.NewAPI(client)
	for name, test := range map[string]struct {
		answer http.Handler
		want   string
		fail   string
	}{
		"series": {answer: faulty.Vector(
			faulty.Series{Labels: map[string]string{"pod": "a"}, Value: "1.5"}, faulty.Series{Value: "NaN"}, faulty.Series{Value: "+Inf"}),
			want: `{pod="a"} => 1.5 @[T] {} => NaN @[T] {} => +Inf @[T]`},
		"no series": {answer: faulty.Vector(), want: ""},
		"scalar":    {answer: faulty.Scalar("3"), want: "scalar: 3 @[T]"},
		"string":    {answer: faulty.String("three"), fail: `value type "string"`},
		"matrix":    {answer: faulty.Matrix(faulty.Series{Value: "2"}), want: "{} => 2 @[T]"},
		"error":     {answer: faulty.QueryError(http.StatusUnprocessableEntity, "execution", "too many samples"), fail: "too many samples"},
		"no number": {answer: faulty.Vector(faulty.Series{Value: "many"}), fail: "many"},
	} {
		query := "sum(" + strings.ReplaceAll(name, " ", "_") + ")"
		server.AnswerQuery(query, test.answer)
		value, _, err := api.Query(t.Context(), query, time.Time{})
		if test.fail != "" {
			if err == nil || !strings.Contains(err.Error(), test.fail) {
				t.Errorf("%s: the query gives %v, want an error with %q", name, err, test.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := withoutTimes(value.String()); got != test.want {
			t.Errorf("%s: the query gives %q, want %q", name, got, test.want)
		}
		if got := server.Count("/api/v1/query", query); got != 1 {
			t.Errorf("%s: %d queries are counted, want 1 of %v", name, got, server.Requests())
		}
	}
}

// withoutTimes puts a T in the place of each time, and one space in that of a
// line's end.
func withoutTimes(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(strings.ReplaceAll(text, "\n", " "), "@[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "]")
			out.WriteString("@[T]")
		}
		out.WriteString(part)
	}
	return out.String()
}

func TestSamplesHaveTheirAge(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	server.Answer(faulty.Vector(faulty.Series{Value: "1", Age: time.Hour}))
	var answer struct {
		Data struct {
			Result model.Vector `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(get(t, server.URL()).body), &answer); err != nil {
		t.Fatal(err)
	}
	age := time.Since(answer.Data.Result[0].Timestamp.Time())
	if age < time.Hour || age > time.Hour+patience {
		t.Errorf("the sample is %v old, want an hour", age)
	}
}

func TestAnswersMisbehaveAsTold(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	json := faulty.JSON(`{"value": 3}`)
	for name, test := range map[string]struct {
		answer http.Handler
		want   response
	}{
		"json":         {json, response{200, "application/json", `{"value": 3}`, ""}},
		"text":         {faulty.Text("queue 3\n"), response{200, "text/plain; version=0.0.4; charset=utf-8", "queue 3\n", ""}},
		"type":         {faulty.As(0, "text/html", json), response{200, "text/html", `{"value": 3}`, ""}},
		"status":       {faulty.As(http.StatusTeapot, "", json), response{418, "application/json", `{"value": 3}`, ""}},
		"plain status": {faulty.Status(http.StatusServiceUnavailable, "later"), response{503, "text/plain; charset=utf-8", "later", ""}},
		"slow":         {faulty.Slow(time.Millisecond, json), response{200, "application/json", `{"value": 3}`, ""}},
		"drip":         {faulty.Drip(time.Millisecond, json), response{200, "application/json", `{"value": 3}`, ""}},
		"cut off":      {faulty.CutOff(json), response{200, "application/json", `{"valu`, "unexpected EOF"}},
		"closed":       {faulty.Close(), response{0, "", "", "EOF"}},
		"hanging":      {faulty.Hang(), response{0, "", "", "context deadline exceeded"}},
		"not found":    {http.NotFoundHandler(), response{404, "text/plain; charset=utf-8", "404 page not found\n", ""}},
	} {
		path := "/" + url.PathEscape(name)
		server.AnswerPath("/"+name, test.answer)
		timeout := patience
		if name == "hanging" {
			timeout = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		got := fetch(ctx, http.DefaultClient, server.URL()+path, nil)
		cancel()
		if got.status != test.want.status || got.contentType != test.want.contentType || got.body != test.want.body ||
			(got.err == "") != (test.want.err == "") || !strings.Contains(got.err, test.want.err) {
			t.Errorf("%s: the answer is %+v, want %+v", name, got, test.want)
		}
	}
}

func TestHugeBodiesEndInOrder(t *testing.T) {
	t.Parallel()
	const size = 3<<20 + 1
	server := start(t, faulty.Options{})
	server.Answer(faulty.Huge(size, faulty.JSON(`{"value": 3}`)))
	got := get(t, server.URL())
	if len(got.body) != size || strings.TrimSpace(got.body) != `{"value": 3}` {
		t.Errorf("the body has %d bytes and says %q, want %d bytes", len(got.body), strings.TrimSpace(got.body), size)
	}
}

func TestRedirectsLeadElsewhere(t *testing.T) {
	t.Parallel()
	server, other := start(t, faulty.Options{}), start(t, faulty.Options{})
	server.Answer(faulty.Redirect(http.StatusTemporaryRedirect, other.URL()+"/there"))
	other.AnswerPath("/there", faulty.JSON("1"))
	if got := get(t, server.URL()); got.body != "1" || other.Count("/there", "") != 1 {
		t.Errorf("the client ends at %+v, want what the other server answers", got)
	}
}

func TestTheLastOfASequenceStands(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	server.Answer(faulty.Sequence(faulty.JSON("1"), faulty.Status(http.StatusBadGateway, ""), faulty.JSON("2")))
	var got []string
	for range 4 {
		answer := get(t, server.URL())
		got = append(got, answer.body+"/"+http.StatusText(answer.status))
	}
	if want := []string{"1/OK", "/Bad Gateway", "2/OK", "2/OK"}; !slices.Equal(got, want) {
		t.Errorf("the answers are %q, want %q", got, want)
	}
}

func TestTLSAndToken(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{TLS: true, Token: "sesame"})
	server.Answer(faulty.JSON("1"))
	if got := fetch(t.Context(), http.DefaultClient, server.URL(), nil); !strings.Contains(got.err, "unknown authority") {
		t.Errorf("a client that does not know the authority gets %+v", got)
	}
	client := trusting(t, server)
	for header, status := range map[string]int{"": 401, "Bearer simsim": 401, "Basic sesame": 401, "Bearer sesame": 200} {
		if got := fetch(t.Context(), client, server.URL(), http.Header{"Authorization": {header}}); got.status != status {
			t.Errorf("with Authorization %q the answer is %+v, want %d", header, got, status)
		}
	}
	server.SetToken("simsim")
	if got := fetch(t.Context(), client, server.URL(), http.Header{"Authorization": {"Bearer simsim"}}); got.status != http.StatusOK {
		t.Errorf("with the new token the answer is %+v", got)
	}
	refused := 0
	for _, request := range server.Requests() {
		if request.Refused {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("%d requests are marked as refused, want 3", refused)
	}

	elsewhere := start(t, faulty.Options{TLS: true, Hosts: []string{"elsewhere.example.com"}})
	if got := fetch(t.Context(), trusting(t, elsewhere), elsewhere.URL(), nil); !strings.Contains(got.err, "127.0.0.1") {
		t.Errorf("with a certificate for another host the answer is %+v", got)
	}
}

func TestADownServerRefusesAndComesBack(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	server.Answer(faulty.Hang())
	hanging := make(chan response, 1)
	go func() { hanging <- fetch(t.Context(), http.DefaultClient, server.URL(), nil) }()
	eventually(t, "the request hangs", func() bool { return server.Peak() == 1 })
	if err := server.Down(); err != nil {
		t.Fatal(err)
	}
	if got := <-hanging; got.err == "" {
		t.Errorf("a request that hangs ends with %+v when the server goes down", got)
	}
	if got := fetch(t.Context(), http.DefaultClient, server.URL(), nil); !strings.Contains(got.err, syscall.ECONNREFUSED.Error()) {
		t.Errorf("a server that is down answers %+v", got)
	}
	server.Answer(faulty.JSON("1"))
	if err := errors.Join(server.Up(), server.Up()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, server.URL()); got.body != "1" {
		t.Errorf("a server that is up again answers %+v", got)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Options{})
	server.Answer(faulty.JSON("1"))
	get(t, server.URL()+"/a?query=x")
	get(t, server.URL()+"/a?query=y")
	get(t, server.URL()+"/b")
	response, err := http.PostForm(server.URL()+"/a", url.Values{"query": {"x"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for _, test := range []struct {
		path, query string
		want        int
	}{{"", "", 4}, {"/a", "", 3}, {"/a", "x", 2}, {"", "y", 1}, {"/b", "x", 0}} {
		if got := server.Count(test.path, test.query); got != test.want {
			t.Errorf("path %q and query %q: %d requests are counted, want %d", test.path, test.query, got, test.want)
		}
	}
	server.Forget()
	if got := server.Count("", ""); got != 0 {
		t.Errorf("%d requests are counted after they were forgotten", got)
	}
}

func TestEventStreams(t *testing.T) {
	t.Parallel()
	server, signals := startSignals(t, faulty.EventStream)
	signals.Send(faulty.Message{ID: "1", Data: "before"})
	stream, contentType := open(t, server, "")
	if contentType != "text/event-stream" {
		t.Errorf("the type is %q", contentType)
	}
	eventually(t, "the connection is held", func() bool { return signals.Connections() == 1 })
	signals.Write(": a comment\n\n")
	signals.Send(faulty.Message{ID: "2", Data: "two\nlines"})
	signals.Send(faulty.Message{Data: "no id"})
	signals.Cut()
	text, err := io.ReadAll(stream)
	if want := ": a comment\n\nid: 2\ndata: two\ndata: lines\n\ndata: no id\n\n"; string(text) != want || err == nil {
		t.Errorf("the stream gives %q (%v), want %q and a broken connection", text, err, want)
	}

	signals.Send(faulty.Message{ID: "3", Data: "missed"})
	stream, _ = open(t, server, "2")
	eventually(t, "the connection is held", func() bool { return signals.Connections() == 1 })
	signals.End()
	text, err = io.ReadAll(stream)
	if want := "data: no id\n\nid: 3\ndata: missed\n\n"; string(text) != want || err != nil {
		t.Errorf("the resumed stream gives %q (%v), want %q and an end in order", text, err, want)
	}
	var last []string
	for _, request := range server.Requests() {
		last = append(last, request.Header.Get("Last-Event-ID"))
	}
	if want := []string{"", "2"}; !slices.Equal(last, want) {
		t.Errorf("the ids that were resumed after are %q, want %q", last, want)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	server, signals := startSignals(t, faulty.Lines)
	stream, contentType := open(t, server, "")
	eventually(t, "the connection is held", func() bool { return signals.Connections() == 1 })
	signals.Send(faulty.Message{Data: `{"signal": "ScaleUp"}`})
	line, err := bufio.NewReader(stream).ReadString('\n')
	if want := `{"signal": "ScaleUp"}` + "\n"; line != want || err != nil {
		t.Errorf("the first line is %q (%v), want %q while the connection is held", line, err, want)
	}
	if contentType != "application/x-ndjson" {
		t.Errorf("the type is %q", contentType)
	}
	_ = stream.Close()
	eventually(t, "the connection is given up", func() bool { return signals.Connections() == 0 })
}

func TestPolling(t *testing.T) {
	t.Parallel()
	for transport, want := range map[faulty.Transport][]string{
		faulty.Polling:       {"", "1", "2", ""},
		faulty.PollingLatest: {"", "2", "2", "2"},
	} {
		server, signals := startSignals(t, transport)
		got := []string{get(t, server.URL()).body}
		signals.Send(faulty.Message{Data: "1"})
		signals.Send(faulty.Message{Data: "2"})
		for range 3 {
			answer := get(t, server.URL())
			if (answer.body == "") != (answer.status == http.StatusNoContent) {
				t.Errorf("transport %d: the answer is %+v, want 204 exactly for nothing new", transport, answer)
			}
			got = append(got, answer.body)
		}
		if !slices.Equal(got, want) {
			t.Errorf("transport %d gives %q, want %q", transport, got, want)
		}
	}
}

func start(t *testing.T, options faulty.Options) *faulty.Server {
	t.Helper()
	server, err := faulty.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func startSignals(t *testing.T, transport faulty.Transport) (*faulty.Server, *faulty.Signals) {
	t.Helper()
	server, signals := start(t, faulty.Options{}), faulty.NewSignals(transport)
	server.Answer(signals)
	return server, signals
}

func open(t *testing.T, server *faulty.Server, lastEventID string) (body io.ReadCloser, contentType string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.Body, response.Header.Get("Content-Type")
}

func trusting(t *testing.T, server *faulty.Server) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(server.CABundle()) {
		t.Fatal("the server has no authority")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// response is what a client sees.
type response struct {
	status      int
	contentType string
	body        string
	err         string
}

func get(t *testing.T, address string) response {
	t.Helper()
	got := fetch(t.Context(), http.DefaultClient, address, nil)
	if got.err != "" {
		t.Fatal(got.err)
	}
	return got
}

func fetch(ctx context.Context, client *http.Client, address string, header http.Header) response {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return response{err: err.Error()}
	}
	if header != nil {
		request.Header = header
	}
	answer, err := client.Do(request)
	if err != nil {
		return response{err: err.Error()}
	}
	defer answer.Body.Close()
	got := response{status: answer.StatusCode, contentType: answer.Header.Get("Content-Type")}
	body, err := io.ReadAll(answer.Body)
	got.body = string(body)
	if err != nil {
		got.err = err.Error()
	}
	return got
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is not so that %s", patience, what)
		}
		<-time.After(time.Millisecond)
	}
}
