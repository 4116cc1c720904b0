package view

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"time"
)

// Report is everything about a namespace, or about one object, as a page.
type Report struct {
	// Title says what the page is about.
	Title string
	// Made is when it was made.
	Made time.Time
	// Lines is who scales what.
	Lines Table
	// Objects are explained one by one.
	Objects []ReportObject
	// Next is what comes.
	Next Next
	// Notes say what could not be shown, and how to have it.
	Notes []string
}

// ReportObject is one object of a report.
type ReportObject struct {
	*Explanation
	Tree  *Node
	Plots []Plot
}

// ID is the anchor of the object on the page.
func (o ReportObject) ID() string {
	return strings.ToLower(o.Object.Kind) + "-" + o.Object.Namespace + "-" + o.Object.Name
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"age":    func(t, now time.Time) string { return Age(t, now) },
	"lower":  strings.ToLower,
	"moment": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"order":  func(r RemovalOrder) string { return groupNames(r.Order) },
}).Parse(page))

// HTML writes the page: one file, without scripts and without anything from elsewhere.
func (r *Report) HTML(w io.Writer) error { return pageTemplate.Execute(w, r) }
