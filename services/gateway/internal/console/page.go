package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

//go:embed templates
var files embed.FS

var templates = template.Must(template.ParseFS(files, "templates/*.html"))

// page is what a browser shows. Parts are shown in order.
type page struct {
	Title   string
	Command string // the command of the CLI that shows the same
	Search  *search
	Parts   []part

	// Filled in for every page:
	User, At string
	Follows  bool // the ledger: the user may read it
	Places   []place
}

// search is a field that narrows a page.
type search struct {
	Name, Value, Hint string
	Keep              []field // parameters that stay
}

// place is an entry of the menu.
type place struct {
	Name, Path, Key string
	Here            bool
}

// part is a titled part of a page, with one of the fields below the title.
type part struct {
	ID    string // of the part, by which a script replaces it
	Title string
	Note  string
	Older string  // the address of what is before
	Tabs  []place // other views of the same
	Cut   []cell  // what is left out, and where it is

	Tiles  []tile
	Map    *heatMap
	Trend  *trend
	Bars   []*bars
	Cells  []square
	Table  *table
	Pairs  []pair
	Forms  []form
	Hidden bool // folded until it is opened
}

// tile is a number that leads to what it counts.
type tile struct {
	Count      int
	What, Link string
	Command    string
	Tone       string
}

// pair is a named value.
type pair struct {
	Name string
	cell
}

// form is a change that a person may ask for.
type form struct {
	Path    string
	Button  string
	Command string // the command of the CLI that does the same
	Danger  bool
	Fields  []field
}

// field is a value of a form. One without a label is not shown.
type field struct {
	Name, Label, Value, Hint string
	Choices                  []string
	Required                 bool
	Words                    bool // several words of a command
}

// maker makes a page.
type maker func(*visit) (*page, error)

// pages are the pages by their paths below /console.
var pages map[string]maker

func init() { // it refers to makers that refer to it
	pages = map[string]maker{
		"/{$}":           fleetPage,
		"/servers":       serversPage,
		"/servers/{id}":  serverPage,
		"/map":           mapPage,
		"/instances":     instancesPage,
		"/check":         checkPage,
		"/rollouts":      rolloutsPage,
		"/rollouts/{id}": rolloutPage,
		"/intents":       intentsPage,
		"/intents/{id}":  intentPage,
		"/tasks":         tasksPage,
		"/tasks/{id}":    taskPage,
		"/events":        eventsPage,
		"/images":        imagesPage,
		"/images/{id}":   imagePage,
		"/environments":  environmentsPage,
		"/holds":         holdsPage,
		"/people":        peoplePage,
		"/codes/{code}":  codePage,
		"/plan":          planPage,
		"/act/{what}":    actPage,
		"/lobby":         lobbyPage,
	}
}

// menu are the places that every page leads to, with the key that follows g.
var menu = []place{
	{Name: "Fleet", Path: "/console/", Key: "f"},
	{Name: "Servers", Path: "/console/servers", Key: "s"},
	{Name: "Agents", Path: "/console/instances", Key: "a"},
	{Name: "Differences", Path: "/console/check", Key: "d"},
	{Name: "Rollouts", Path: "/console/rollouts", Key: "r"},
	{Name: "Tasks", Path: "/console/tasks", Key: "t"},
	{Name: "Holds", Path: "/console/holds", Key: "h"},
	{Name: "Images", Path: "/console/images", Key: "i"},
	{Name: "Environments", Path: "/console/environments", Key: "e"},
	{Name: "Ledger", Path: "/console/events", Key: "l"},
	{Name: "People", Path: "/console/people", Key: "p"},
}

// show serves a page, or one of its tables as CSV or JSON.
func show(of maker) func(*visit) {
	return func(v *visit) {
		ctx, cancel := v.bounded()
		defer cancel()
		v.Request = v.WithContext(ctx)
		p, err := of(v)
		switch as := v.URL.Query().Get("as"); {
		case err != nil:
			showError(v, err)
		case as != "":
			sendTable(v, p, as)
		default:
			v.show(http.StatusOK, p)
		}
	}
}

// show writes a page.
func (v *visit) show(status int, p *page) {
	p.User, p.At, p.Follows = v.user, v.at.UTC().Format(time.RFC3339), v.role != topology.Approver
	for _, at := range menu {
		if at.Here = at.Path == v.URL.Path; p.Follows || at.Path == "/console/rollouts" {
			p.Places = append(p.Places, at)
		}
	}
	for _, is := range p.Parts {
		if is.Table != nil && is.ID != "" && len(is.Table.Rows) > 0 {
			is.Table.CSV, is.Table.JSON = v.with("as", is.ID+".csv"), v.with("as", is.ID+".json")
		}
	}
	render(v.w, status, "page.html", p)
}

// render writes a template, once it is whole.
func render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // a browser that is gone needs no page
}

// showError shows why there is no page, and what to do.
func showError(v *visit, err error) {
	p := &page{Title: "This did not work", Parts: []part{{Pairs: errorPairs(err)}}}
	v.show(failure.Status(err), p)
}

// errorPairs returns an error as the CLI explains it.
func errorPairs(err error) []pair {
	r := fault.RefusalOf(err)
	if r == nil {
		return []pair{{"Because", cell{Text: err.Error()}}}
	}
	out := []pair{{"Because", cell{Text: r.GetMessage()}}}
	if _, known := code.Lookup(r.GetCode()); known {
		out = append(out, pair{"Code", cell{Text: r.GetCode(), Link: "/console/codes/" + url.PathEscape(r.GetCode())}})
	}
	if r.GetNearest() != "" {
		out = append(out, pair{"Nearest", cell{Text: r.GetNearest()}})
	}
	if r.GetTry() != "" {
		out = append(out, pair{"Try", commandCell(r.GetTry())})
	}
	return out
}
