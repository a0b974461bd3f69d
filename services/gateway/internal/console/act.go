package console

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// act is a change of one thing. A form asks for it, a page shows its command and its plan, and a second form does it.
type act struct {
	button string
	danger bool // it asks for a second click, without a page in between
	admin  bool // only of the role admin
	direct bool // it is done at once, without a page in between: it is urgent, and can be taken back
	fields []field
	// command returns the command of the CLI that does the same, from values that are quoted for a shell: an address
	// that another person made must not choose what a click on the command copies.
	command func(values) string
	// plan returns what it would do, and fields that bind the change to that; nil when its command says it all.
	plan func(*visit, values) ([]part, []field, error)
	// do returns what came of it; nil when the plan has an intent, which is started.
	do func(*visit, values) (string, error)
}

// values returns the value of a field, by its name.
type values func(name string) string

// form returns the form that asks for an act. What the page knows is not asked for.
func (a act) form(what string, known map[string]string) form {
	f := form{Path: "/console/act/" + what, Button: a.button, Danger: a.danger}
	all := true
	for _, is := range a.fields {
		if value, ok := known[is.Name]; ok {
			is.Value, is.Label = value, ""
		} else if is.Required {
			all = false
		}
		f.Fields = append(f.Fields, is)
	}
	if a.direct {
		f.Fields = append(f.Fields, field{Name: "confirmed", Value: "1"})
	}
	if all {
		f.Command = a.command(a.quoted(func(name string) string { return known[name] }))
	}
	return f
}

// quoted returns values as the words of a command.
func (a act) quoted(is values) values {
	return func(name string) string {
		value := visible.Line(is(name))
		if value == "" {
			return ""
		}
		words := []string{value}
		if slices.ContainsFunc(a.fields, func(f field) bool { return f.Name == name && f.Words }) {
			words = strings.Fields(value)
		}
		for n := range words {
			words[n] = listing.Quote(words[n])
		}
		return strings.Join(words, " ")
	}
}

// offer adds the part with the forms of acts on one thing, of those that the user's role allows.
func (v *visit) offer(p *page, title string, known map[string]string, names ...string) {
	is := part{Title: title, Hidden: true}
	for _, name := range names {
		if v.mayDo(acts[name]) {
			is.Forms = append(is.Forms, acts[name].form(name, known))
		}
	}
	if len(is.Forms) > 0 {
		p.Parts = append(p.Parts, is)
	}
}

// mayDo reports whether the user's role allows an act. The bus decides in any case.
func (v *visit) mayDo(a act) bool { return v.mayWrite() && (!a.admin || v.role == topology.Admin) }

// act returns the act that a request names, with its values.
func (v *visit) act() (act, values, error) {
	a, known := acts[v.PathValue("what")]
	if !known {
		return a, nil, fault.New(fault.NotFound, "the console has no act %.20q", v.PathValue("what"))
	}
	value := func(name string) string { return textOf(v.Request, name) }
	for _, is := range a.fields {
		if err := is.check(value(is.Name)); err != nil {
			return a, nil, err
		}
	}
	return a, value, nil
}

// check refuses a value that the field does not take. The act's command is copied to a terminal, and an address with
// its values can be made by another person: no value can be a flag there, and a server is one server.
func (f field) check(value string) error {
	words := []string{visible.Line(value)}
	if f.Words {
		words = strings.Fields(words[0])
	}
	switch {
	case f.Required && value == "":
		return fault.New(fault.Invalid, "%s is missing; go back and fill it in", f.Name)
	case len(f.Choices) > 0 && !slices.Contains(f.Choices, value):
		return fault.New(fault.Invalid, "%s has no such choice; go back and choose one", f.Name)
	case slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") }):
		return fault.New(fault.Invalid, "%s begins with a dash, as a flag does; go back and change it", f.Name)
	case f.Name != "server" || value == "":
		return nil
	case value == "all":
		return fault.New(fault.Invalid, "server is not one server; go back and name one")
	}
	return ident.CheckHostname("server", value)
}

// actPage shows what an act would do, and asks. It changes nothing.
func actPage(v *visit) (*page, error) {
	a, value, err := v.act()
	if err != nil {
		return nil, err
	}
	p := &page{Title: a.button, Command: a.command(a.quoted(value))}
	ask := form{Path: v.URL.Path, Button: "Do it"}
	var pairs []pair
	for _, is := range a.fields {
		ask.Fields = append(ask.Fields, field{Name: is.Name, Value: value(is.Name)})
		if text := value(is.Name); text != "" && is.Label != "" {
			pairs = append(pairs, pair{is.Label, cell{Text: visible.Text(text)}})
		}
	}
	p.Parts = []part{{Pairs: pairs}}
	if a.plan != nil {
		parts, bound, err := a.plan(v, value)
		if err != nil {
			return nil, err
		}
		p.Parts = append(p.Parts, parts...)
		if bound == nil {
			return p, nil // it would be refused
		}
		ask.Fields = append(ask.Fields, bound...)
	}
	if a.do == nil {
		ask.Path = "/console/start"
	}
	ask.Fields = append(ask.Fields, field{Name: "confirmed", Value: "1"})
	if v.mayDo(a) {
		p.Parts = append(p.Parts, part{Forms: []form{ask}})
	}
	return p, nil
}

// doAct leads to the page of an act, and does it once that was confirmed.
func doAct(v *visit) {
	a, value, err := v.act()
	switch {
	case err != nil:
		showError(v, err)
		return
	case value("confirmed") == "" || a.do == nil:
		v.goTo(v.URL.Path + "?" + v.PostForm.Encode())
		return
	}
	ctx, cancel := v.bounded()
	defer cancel()
	v.Request = v.WithContext(client.WithNote(ctx, value("why")))
	said, err := a.do(v, value)
	switch {
	case err != nil:
		showError(v, err)
	case said == "":
		v.goTo(placeOf(value))
	default:
		v.show(http.StatusOK, &page{Title: a.button + ": done", Parts: []part{{Pairs: []pair{
			{"Done", cell{Text: said, Tone: string(listing.Good)}},
			{"Next", cell{Text: "back to what it is about", Link: placeOf(value)}},
		}}}})
	}
}

// placeOf returns the page of what an act is about.
func placeOf(value values) string {
	for _, list := range []struct{ name, path string }{
		{"rollout", "rollouts"}, {"server", "servers"}, {"image", "images"},
	} {
		if id := value(list.name); id != "" {
			return pathOf(list.path, id)
		}
	}
	if value("fingerprint") != "" {
		return "/console/lobby"
	}
	return "/console/holds"
}

// onOne selects the server that an act names.
func onOne(value values) *intentv1.Selector {
	return &intentv1.Selector{Servers: []string{value("server")}}
}

// planUnhold returns the hold that ends: it may be about more servers than the page that led to it.
func planUnhold(v *visit, value values) ([]part, []field, error) {
	r, err := client.Collect[*registryv1.ListRecordsResponse](v.Context(), v.client, record.List(ledger.Hold), 0)
	if err != nil {
		return nil, nil, err
	}
	holds := slices.DeleteFunc(r.GetHolds(), func(h display.Hold) bool {
		return !ident.IsPart(value("hold"), h.GetId())
	})
	switch parts := []part{{Title: "What ends", Table: tableOf(v, display.Holds, holds, nil)}}; len(holds) {
	case 0:
		return nil, nil, fault.Refusef(fault.NotFound, code.NotFound, "no hold has the id %.40q", value("hold")).
			Try("garrison hold list")
	case 1:
		return parts, []field{}, nil
	default:
		return parts, nil, nil // the id is too short to name one of them
	}
}

// planDecommission returns the agents that end with a server, and the intent that ends it.
func planDecommission(v *visit, value values) ([]part, []field, error) {
	r, err := v.client.Plan(v.Context(), &registryv1.PlanIntentRequest{Intent: &intentv1.Intent{
		Ask:  &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{On: onOne(value)}},
		Note: value("why"),
	}}, rowsShown)
	if err != nil {
		return nil, nil, err
	}
	agents, err := client.Call[*registryv1.CountInstancesResponse](v.Context(), v.client,
		&registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{On: onOne(value)}, By: []string{"agent"},
		})
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, g := range agents.GetCounts().GetGroups() {
		names = append(names, g.GetValues()[0])
	}
	parts := plansShown(v, r.GetPlans(), r.GetTargets())
	if len(names) > 0 {
		parts = append(parts, part{Title: "Agents that end, too", Pairs: []pair{{"", cell{Text: lines(names)}}}})
	}
	if len(r.GetPlans()) != 1 || r.GetPlans()[0].GetRefusal() != nil || r.GetPlans()[0].GetChanged() == 0 {
		return parts, nil, nil
	}
	body, err := protojson.Marshal(r.GetPlans()[0].GetIntent())
	return parts, []field{{Name: "id", Value: client.NewID()}, {Name: "intent", Value: string(body)}}, err
}

// planMove returns what the defaults of an environment install on a server that moves there.
func planMove(v *visit, value values) ([]part, []field, error) {
	r, err := client.Call[*registryv1.PlanDefaultsResponse](v.Context(), v.client, &registryv1.PlanDefaultsRequest{
		Ask: &registryv1.PlanDefaultsRequest_Move{Move: moveOf(value)},
	})
	if err != nil {
		return nil, nil, err
	}
	if len(r.GetTargets()) == 0 {
		return nil, []field{planField(r)}, nil
	}
	return plansShown(v, r.GetPlans(), r.GetTargets()), []field{planField(r)}, nil
}

func planField(r *registryv1.PlanDefaultsResponse) field {
	return field{Name: "plan", Value: hex.EncodeToString(r.GetPlanSha256())}
}

// plansShown returns what plans do to servers, and what a person should know of them.
func plansShown(v *visit, plans []*intentv1.Plan, targets []*intentv1.Target) (parts []part) {
	var notes []string
	for _, one := range plans {
		if refusal := one.GetRefusal(); refusal != nil {
			parts = append(parts, part{Title: "It would be refused", Pairs: errorPairs(client.Refused(refusal))})
		}
		notes = append(notes, display.PlanNotes(one)...)
	}
	t := tableOf(v, display.Plan, targets, nil)
	parts = append(parts, part{Title: "What it does", Table: t})
	if len(notes) > 0 {
		parts = append(parts, part{Title: "Notes", Pairs: []pair{{"", cell{Text: lines(notes)}}}})
	}
	return parts
}
