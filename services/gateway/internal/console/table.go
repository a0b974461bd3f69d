package console

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"google.golang.org/protobuf/proto"
)

// rowsShown is how many rows of a list a page has.
const rowsShown = 100

// table is rows of cells.
type table struct {
	Columns   []string
	Rows      [][]cell
	Next      string // the address of the next part; empty at the end
	CSV, JSON string // addresses of the same rows
	Empty     string // what is said in place of no rows
}

// cell is a text, with where it leads.
type cell struct {
	Text    string
	Link    string
	Command bool   // the text is a command of the CLI
	Tone    string // of a word for a state: good, look, bad or past
}

// commandCell returns what somebody may try. What the console has a page for is a link.
func commandCell(text string) cell {
	return cell{Text: text, Command: strings.HasPrefix(text, "garrison "), Link: pageOf(text)}
}

// links are where the cells of a row lead, by the titles of their columns.
type links[T any] map[string]func(row T) string

// list returns the part of a list that a request asks for.
func list[R interface {
	proto.Message
	GetNextCursor() string
}, T any](v *visit, q proto.Message, l listing.Listing[T], rows func(R) []T, to links[T]) (*table, error) {
	r, err := client.Call[R](v.Context(), v.client, q)
	if err != nil {
		return nil, err
	}
	return tableOf(v, l, rows(r), to).next(v, r.GetNextCursor()), nil
}

// tableOf returns rows as a listing describes them, without wide columns and those that are empty in every row.
func tableOf[T any](v *visit, l listing.Listing[T], rows []T, to links[T]) *table {
	view := listing.View{At: v.at, Names: v.names}
	columns, _ := listing.Chosen(nil, v.URL.Query().Get("as") != "", l.Columns) // no name is asked for
	rows = slices.Clone(rows)
	_ = listing.Sort("", view, l, rows) // its own order is a column that it has
	if v.URL.Query().Get("as") == "" && len(rows) > 0 {
		columns = slices.DeleteFunc(columns, func(c listing.Column[T]) bool {
			return !slices.ContainsFunc(rows, func(r T) bool { return c.Value(view, r) != "" })
		})
	}
	t := &table{Empty: "None."}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Title)
	}
	for _, row := range rows {
		var cells []cell
		for _, c := range columns {
			is := cellOf(c.Title, c.Value(view, row))
			if link := to[c.Title]; link != nil {
				is.Link = link(row)
			}
			cells = append(cells, is)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// cellOf returns a value below a title.
func cellOf(title, text string) cell {
	text = visible.Text(text)
	switch title {
	case "NEXT", "CURE":
		return commandCell(text)
	case "STATE", "HEALTH", "PRESENCE":
		return cell{Text: text, Tone: toneOf(text)}
	case "CAUSE", "CODE":
		if _, known := code.Lookup(text); known {
			return cell{Text: text, Link: "/console/codes/" + url.PathEscape(text)}
		}
	}
	return cell{Text: text}
}

// toneOf returns the tone of the worst of the words of a state.
func toneOf(text string) string {
	found := listing.Plain
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch tone := listing.Tones[word]; {
		case tone == listing.Bad, found == listing.Plain, tone == listing.Look && found != listing.Bad:
			found = tone
		}
	}
	return string(found)
}

// with returns the address of the same page with another parameter.
func (v *visit) with(name, value string) string {
	q := v.URL.Query()
	q.Set(name, value)
	return v.URL.Path + "?" + q.Encode()
}

// next sets where a list goes on.
func (t *table) next(v *visit, cursor string) *table {
	if cursor != "" {
		t.Next = v.with("after", cursor)
	}
	return t
}

// cut says that a part of a page has only the first n rows, and leads to all of them.
func cut(n int, cursor string, all cell) []cell {
	if cursor == "" {
		return nil
	}
	return []cell{{Text: fmt.Sprintf("The first %d are shown.", n)}, all}
}

// sendTable sends a table of a page in a form for programs: ID.csv or ID.json.
func sendTable(v *visit, p *page, as string) {
	id, kind, _ := strings.Cut(as, ".")
	n := slices.IndexFunc(p.Parts, func(is part) bool { return is.Table != nil && is.ID == id })
	if n < 0 || kind != "csv" && kind != "json" {
		showError(v, fault.New(fault.Invalid, "this page has no %.20q", as))
		return
	}
	t := p.Parts[n].Table
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+id+"."+kind+`"`)
	if kind == "json" {
		v.w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(v.w).Encode(objects(t)) // a browser that is gone needs no file
		return
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	out := csv.NewWriter(v.w)
	_ = out.Write(t.Columns)
	for _, row := range t.Rows {
		var texts []string
		for _, c := range row {
			texts = append(texts, inert(c.Text))
		}
		_ = out.Write(texts)
	}
	out.Flush()
}

// inert returns a text that no spreadsheet takes for a formula.
func inert(text string) string {
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r\n") {
		return "'" + text
	}
	return text
}

func objects(t *table) []map[string]string {
	out := []map[string]string{}
	for _, row := range t.Rows {
		o := map[string]string{}
		for n, c := range row {
			o[strings.ToLower(t.Columns[n])] = c.Text
		}
		out = append(out, o)
	}
	return out
}

// textOf returns the first value of a parameter of a form or an address.
func textOf(r *http.Request, name string) string { return strings.TrimSpace(r.FormValue(name)) }

// nameServers fetches the names of servers, by which the cells of a page call them. One that is forgotten has none.
func (v *visit) nameServers(ids []string) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil
	}
	r, err := client.Call[*registryv1.ListServersResponse](v.Context(), v.client, &registryv1.ListServersRequest{
		Page: &apiv1.Page{Limit: rowsShown}, On: &intentv1.Selector{Servers: ids[:min(len(ids), rowsShown)]},
	})
	if err != nil {
		return err
	}
	v.names = map[string]string{}
	for _, s := range r.GetServers() {
		v.names[s.GetId()] = s.GetName()
	}
	return nil
}

// nameServersOf fetches the names of the servers of rows.
func nameServersOf[T any](v *visit, rows []T, server func(T) string) error {
	var ids []string
	for _, row := range rows {
		ids = append(ids, server(row))
	}
	return v.nameServers(ids)
}
