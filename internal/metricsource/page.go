package metricsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// parsePage finds a metric in a page. The time is that of the oldest sample that has one, else zero.
func parsePage(body []byte, mediaType, name string) (float64, time.Time, error) {
	isObject := bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return 0, time.Time{}, &Error{Reason: NoData, Message: "the answer is empty"}
	case mediaType == "application/json", strings.HasSuffix(mediaType, "+json"):
		value, err := parseJSON(body, name)
		return value, time.Time{}, err
	case mediaType == "application/openmetrics-text":
		return parseText(textparse.NewOpenMetricsParser(body, labels.NewSymbolTable()), name)
	case mediaType == "text/plain", mediaType == "application/octet-stream", mediaType == "":
		// Servers that set no type send JSON as this too; a page of text begins so only with a quoted name.
		if isObject && json.Valid(body) {
			value, err := parseJSON(body, name)
			return value, time.Time{}, err
		}
		return parseText(textparse.NewPromParser(body, labels.NewSymbolTable(), false), name)
	}
	return 0, time.Time{}, &Error{Reason: WrongResultType, Message: fmt.Sprintf("the answer is of type %q, must be Prometheus text or JSON", short(mediaType))}
}

// family gathers the samples of one name.
type family struct {
	samples int
	sum     float64
	oldest  time.Time
}

func (f *family) add(value float64, millis *int64) {
	f.samples++
	f.sum += value
	if millis != nil {
		if at := time.UnixMilli(*millis); f.oldest.IsZero() || at.Before(f.oldest) {
			f.oldest = at
		}
	}
}

// parseText sums the samples of a family: those that have its name, or for a counter its name with `_total`.
func parseText(p textparse.Parser, name string) (float64, time.Time, error) {
	types := map[string]model.MetricType{}
	seen := map[string]bool{}
	var exact, total family
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			// The parser quotes the page, which is not the user's to read.
			return 0, time.Time{}, &Error{Reason: WrongResultType, Message: "the answer is neither Prometheus text nor JSON"}
		}
		switch entry {
		case textparse.EntryType:
			of, t := p.Type()
			types[string(of)] = t
		case textparse.EntrySeries:
			series, millis, value := p.Series()
			found := seriesName(p, series)
			switch found {
			case name:
				exact.add(value, millis)
			case name + "_total":
				total.add(value, millis)
			}
			if len(seen) < maxNames {
				seen[found] = true
			}
		default: // Words for people.
		}
	}
	for _, of := range []string{name, strings.TrimSuffix(name, "_bucket")} {
		if t := types[of]; t == model.MetricTypeHistogram || t == model.MetricTypeGaugeHistogram || t == model.MetricTypeSummary {
			return 0, time.Time{}, &Error{Reason: WrongResultType, Message: fmt.Sprintf("%s is a %s, whose samples make no sum; name %s_sum or %s_count, or set a query", of, t, of, of)}
		}
	}
	switch {
	case exact.samples > 0:
		return exact.sum, exact.oldest, nil
	case total.samples > 0 && (types[name] == model.MetricTypeCounter || types[name+"_total"] == model.MetricTypeCounter):
		return total.sum, total.oldest, nil
	}
	return 0, time.Time{}, notFound(name, seen)
}

// seriesName is the name in front of the labels, or the quoted one among them.
func seriesName(p textparse.Parser, series []byte) string {
	if i := bytes.IndexAny(series, "{ \t"); i != 0 {
		if i > 0 {
			series = series[:i]
		}
		return string(series)
	}
	var l labels.Labels
	p.Labels(&l)
	return l.Get(model.MetricNameLabel)
}

// parseJSON reads the number under the name, where dots descend, or else under `value`.
func parseJSON(body []byte, name string) (float64, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var page any
	err := decoder.Decode(&page)
	if _, after := decoder.Token(); err != nil || !errors.Is(after, io.EOF) {
		return 0, &Error{Reason: WrongResultType, Message: "the answer says that it is JSON and is not"}
	}
	object, ok := page.(map[string]any)
	if !ok {
		return 0, &Error{Reason: WrongResultType, Message: fmt.Sprintf("the JSON answer is %s, must be an object", kindOf(page))}
	}
	key := name
	value, ok := descend(object, name)
	if !ok {
		key = "value"
		if value, ok = object[key]; !ok {
			names := map[string]bool{}
			keysOf(object, "", names)
			return 0, notFound(name, names)
		}
	}
	var text string
	switch value := value.(type) {
	case json.Number:
		text = value.String()
	case string:
		text = strings.TrimSpace(value)
	case nil:
		return 0, &Error{Reason: NoData, Message: fmt.Sprintf("the value under %q is null", key)}
	default:
		return 0, &Error{Reason: WrongResultType, Message: fmt.Sprintf("the value under %q is %s, must be a number", key, kindOf(value))}
	}
	// What is out of range comes back as an infinity.
	number, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, &Error{Reason: WrongResultType, Message: fmt.Sprintf("the value under %q is a text, must be a number", key)}
	}
	return number, nil
}

// descend finds a key whose dots lead into objects, unless they belong to a key.
func descend(object map[string]any, path string) (any, bool) {
	if value, ok := object[path]; ok {
		return value, true
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := object[path[:i]].(map[string]any); ok {
			if value, ok := descend(inner, path[i+1:]); ok {
				return value, true
			}
		}
	}
	return nil, false
}

// keysOf collects the paths that lead to something other than an object.
func keysOf(object map[string]any, prefix string, names map[string]bool) {
	for key, value := range object {
		if len(names) >= maxNames {
			return
		}
		if inner, ok := value.(map[string]any); ok {
			keysOf(inner, prefix+key+".", names)
		} else {
			names[prefix+key] = true
		}
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return "a number"
}

// maxNames bounds how many names are kept in case the one that is asked for is not among them.
const maxNames = 5000

// notFound names what the user may have meant.
func notFound(name string, seen map[string]bool) *Error {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	limit := 1 + min(len(name)/8, 2)
	for other := range seen {
		if d := distance(plain(name), plain(other), limit); d <= limit {
			near = append(near, candidate{other, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	message := fmt.Sprintf("the answer holds no metric %q", name)
	for i, n := range near[:min(len(near), 3)] {
		message += []string{"; similar: ", ", ", ", "}[i] + strconv.Quote(short(n.name))
	}
	return &Error{Reason: MetricNotFound, Message: message}
}

// plain leaves of a name what people remember of it.
func plain(name string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '_'
	}, name))
}

// distance is the number of letters to insert, delete or replace between two words; above the limit any number above it.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, from := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, to := range b {
			replace := diagonal
			if from != to {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
