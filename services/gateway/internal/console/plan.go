package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// changes are what forms do, by their paths below /console.
var changes map[string]func(*visit)

func init() {
	changes = map[string]func(*visit){
		"/plan":       showPlan,
		"/start":      start,
		"/act/{what}": doAct,
	}
}

// speeds are the ways in which a change reaches servers, as a form names them.
var speeds = []string{"one server first, then the rest", "1, 10 %, 50 %, the rest", "all at once"}

// verbs are what a form may ask for.
var verbs = []string{"up", "install", "remove", "restart"}

// changeForms returns the part with which agents are changed on servers.
func changeForms(title, on string) part {
	return part{Title: title, Hidden: true, Forms: []form{{
		Path: "/console/plan", Button: "Show the plan",
		Fields: []field{
			{Name: "verb", Label: "What", Choices: verbs},
			{Name: "agent", Label: "Agent", Required: true},
			{Name: "version", Label: "Version", Hint: "newest of the channel"},
			{Name: "on", Label: "On", Value: on, Required: true},
			{Name: "speed", Label: "How fast", Choices: speeds},
			{Name: "why", Label: "Why", Hint: "a ticket, or a sentence"},
		},
	}}}
}

// showPlan shows what a change would do, at an address that can be shared. It changes nothing.
func showPlan(v *visit) {
	_ = v.ParseForm() // a body that is too large leaves fields out, which the plan refuses
	v.goTo("/console/plan?" + v.PostForm.Encode())
}

// planPage is the plan of a change, and the button that does it.
func planPage(v *visit) (*page, error) {
	ask, command, err := asked(v)
	if err != nil {
		return nil, err
	}
	in := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: ask}, Note: textOf(v.Request, "why")}
	in.AtOnce = textOf(v.Request, "speed") == speeds[2]
	q := &registryv1.PlanRolloutRequest{Intent: in, Forecast: true}
	r, err := v.client.PlanRollout(v.Context(), q, squaresDrawn)
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Plan: " + cmp.Or(r.GetTitle(), verbOf(v)), Command: command}
	if refusal := r.GetRefusal(); refusal != nil {
		p.Parts = append(p.Parts, part{Title: "It would be refused", Pairs: errorPairs(client.Refused(refusal))})
		return p, nil
	}
	if v.mayWrite() && serversOf(r) > 0 {
		body, err := protojson.Marshal(r.GetIntent())
		if err != nil {
			return nil, err
		}
		p.Parts = append(p.Parts, part{Forms: []form{{
			Path: "/console/start", Button: "Do it on " + listing.Plural(serversOf(r), "server"),
			Fields: []field{{Name: "id", Value: client.NewID()}, {Name: "intent", Value: string(body)}},
		}}})
	}
	p.Parts = slices.Insert(p.Parts, 0, part{Pairs: planPairs(r)})
	from, _ := strconv.Atoi(textOf(v.Request, "after")) // what is no number is the first part
	from = min(max(from, 0), len(r.GetTargets()))
	targets := r.GetTargets()[from:min(len(r.GetTargets()), from+rowsShown)]
	table, next := tableOf(v, without(display.RolloutTargets, "STATE"), targets, nil), ""
	if end := from + rowsShown; end < len(r.GetTargets()) {
		next = strconv.Itoa(end)
	}
	p.Parts = append(p.Parts,
		part{
			Title: "Servers, wave by wave", Cells: squaresOf(r.GetTargets()),
			Note: drawn(len(r.GetTargets()), r.GetNextCursor()),
		},
		part{Table: table.next(v, next)},
		part{Title: "Servers that stay as they are", Pairs: stayPairs(r)})
	return p, nil
}

// serversOf returns how many servers a plan changes, now or once they can change.
func serversOf(r *registryv1.PlanRolloutResponse) int {
	n := r.GetOwed()
	for _, size := range r.GetWaves() {
		n += size
	}
	return int(n)
}

// planPairs returns how a plan goes.
func planPairs(r *registryv1.PlanRolloutResponse) []pair {
	var waves []string
	for n, size := range r.GetWaves() {
		waves = append(waves, fmt.Sprintf("wave %d: %s", n+1, listing.Plural(int(size), "server")))
	}
	out := []pair{{"Waves", cell{Text: lines(waves)}}}
	if r.GetOwed() > 0 {
		out = append(out, pair{"Owed", cell{Text: listing.Plural(int(r.GetOwed()), "server") +
			" that cannot change now, and will when they can"}})
	}
	if r.GetClosed() > 0 {
		out = append(out, pair{"Closed", cell{Text: listing.Plural(int(r.GetClosed()), "server") + ": " +
			r.GetClosedBecause()}})
	}
	if r.GetBytes() > 0 {
		out = append(out, pair{"Fetched", cell{Text: "at most " + listing.Size(r.GetBytes())}})
	}
	var values []string
	for _, c := range r.GetValues() {
		values = append(values, display.ValueChange(c))
	}
	if n := r.GetMoreValues(); n > 0 {
		values = append(values, fmt.Sprintf("… and %d more changes of values", n))
	}
	notes := display.RolloutNotes(r)
	for _, step := range r.GetSteps() {
		notes = append(notes, display.PlanNotes(step)...)
	}
	for _, is := range []pair{
		{"Takes", cell{Text: display.TakesText(r.GetForecast())}}, {"Values", cell{Text: lines(values)}},
		{"Notes", cell{Text: visible.Text(lines(notes))}},
	} {
		if is.Text != "" {
			out = append(out, is)
		}
	}
	return out
}

// stayPairs returns why servers do not change.
func stayPairs(r *registryv1.PlanRolloutResponse) (out []pair) {
	for _, step := range r.GetSteps() {
		for _, line := range display.ReasonLines(step.GetReasons()) {
			out = append(out, pair{"", cell{Text: line}})
		}
	}
	if out == nil {
		out = []pair{{"", cell{Text: "None."}}}
	}
	return out
}

// verbOf returns what the parameters ask for, in few words.
func verbOf(v *visit) string { return textOf(v.Request, "verb") + " " + textOf(v.Request, "agent") }

// asked returns the rollout that the parameters ask for, and the command of the CLI for it.
func asked(v *visit) (*intentv1.Rollout, string, error) {
	for _, name := range []string{"agent", "of", "why"} {
		if err := (field{Name: name}).check(textOf(v.Request, name)); err != nil {
			return nil, "", err
		}
	}
	verb, agent := textOf(v.Request, "verb"), textOf(v.Request, "agent")
	if verb == "undo" {
		of := textOf(v.Request, "of")
		return &intentv1.Rollout{UndoOf: of}, "garrison undo " + listing.Quote(of), nil
	}
	on, err := v.on()
	switch {
	case err != nil:
		return nil, "", err
	case on == nil || agent == "" || !slices.Contains(verbs, verb):
		return nil, "", fault.New(fault.Invalid, "a change needs what to do (%s), an agent, and servers",
			strings.Join(verbs, ", "))
	case (verb == "remove" || verb == "restart") && textOf(v.Request, "version") != "":
		return nil, "", fault.New(fault.Invalid, "to %s an agent needs no version; leave it out", verb)
	}
	version := textOf(v.Request, "version")
	var image *intentv1.ImageChoice
	command := "garrison " + verb + " " + listing.Quote(agent)
	if version != "" {
		image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
		command = "garrison " + verb + " " + listing.Quote(agent+"@"+version)
	}
	ask := &intentv1.Rollout{On: on, Steps: []*intentv1.Step{stepOf(verb, agent, image)}, Strategy: strategyOf(v)}
	return ask, commandFor(v, command+" "+selection.Args(on)), nil
}

// commandFor returns the command with how fast it goes and why; "" where one command does not say that.
func commandFor(v *visit, command string) string {
	switch textOf(v.Request, "speed") {
	case speeds[1]:
		return ""
	case speeds[2]:
		command += " --at-once"
	}
	if why := textOf(v.Request, "why"); why != "" {
		command += " -m " + listing.Quote(why)
	}
	return command
}

func stepOf(verb, agent string, image *intentv1.ImageChoice) *intentv1.Step {
	switch verb {
	case "install":
		return &intentv1.Step{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: agent, Image: image}}}
	case "remove":
		return &intentv1.Step{Change: &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: agent}}}
	}
	return &intentv1.Step{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: agent, Image: image, Again: verb == "restart",
	}}}
}

// strategyOf returns how fast a change goes.
func strategyOf(v *visit) *rolloutv1.Strategy {
	first := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: 1}}
	share := func(percent uint32) *rolloutv1.Stage {
		return &rolloutv1.Stage{Size: &rolloutv1.Stage_Percent{Percent: percent}}
	}
	switch textOf(v.Request, "speed") {
	case speeds[2]:
		return nil
	case speeds[1]:
		return &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{first, share(10), share(50), share(100)}}
	}
	return &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{first, share(100)}}
}

// start publishes the intent of a plan under the id that the plan's page gave it: twice is once.
func start(v *visit) {
	in, id := &intentv1.Intent{}, textOf(v.Request, "id")
	err := protojson.Unmarshal([]byte(v.PostFormValue("intent")), in)
	place := "rollouts"
	if in.GetDecommission() != nil {
		place = "intents"
	}
	if err != nil || in.GetRollout() == nil && in.GetDecommission() == nil || in.GetGuard() == nil ||
		!ident.IsUUID(id) {
		showError(v, fault.New(fault.Invalid, "the form holds no plan; go back and show the plan again"))
		return
	}
	ctx, cancel := v.bounded()
	defer cancel()
	if err = v.client.Publish(ctx, id, in); err == nil {
		// Without an answer in time it may yet be accepted: its page says so, and asks again.
		if _, err = v.client.Decision(ctx, id); fault.Is(err, fault.Unavailable) {
			err = nil
		}
	}
	if err != nil {
		showError(v, err)
		return
	}
	v.goTo(pathOf(place, id))
}

// goTo shows another page after a form.
func (v *visit) goTo(path string) { http.Redirect(v.w, v.Request, path, http.StatusSeeOther) }
