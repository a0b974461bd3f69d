package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// planRow is one line of a plan.
type planRow struct {
	Server string `json:"server"`
	Agent  string `json:"agent"`
	From   string `json:"from"`
	To     string `json:"to"`
}

var planListing = listing[planRow]{
	name: func(r planRow) string { return r.Server + "/" + r.Agent },
	columns: []column[planRow]{
		{title: "SERVER", value: func(_ view, r planRow) string { return r.Server }},
		{title: "AGENT", value: func(_ view, r planRow) string { return r.Agent }},
		{title: "FROM", value: func(_ view, r planRow) string { return r.From }},
		{title: "TO", value: func(_ view, r planRow) string { return r.To }},
	},
}

// plan is what an upgrade would do.
type plan struct {
	Changed uint32    `json:"changed"`
	Already uint32    `json:"already"`
	Passed  uint32    `json:"passedOver"`
	Rows    []planRow `json:"rows"`
	orders  []order   // the dry runs that led to it
	targets []target  // what is really to be changed
}

// up plans, shows, asks, does and watches.
func (s *session) up(ctx context.Context, w workFlags, u up) error {
	p, err := s.plan(ctx, u)
	if err != nil {
		return err
	}
	if err := s.showPlan(w, p); err != nil || w.dryRun {
		return err
	}
	if p.Changed == 0 {
		s.say("nothing to do")
		return nil
	}
	if err := s.confirm(ctx, w, fmt.Sprintf("Upgrade on %s?", plural(int(p.Changed), "server"))); err != nil {
		return err
	}
	var orders []order
	for _, t := range p.targets {
		orders = append(orders, u.order(t))
	}
	return s.work(ctx, w, orders...)
}

// plan asks the registry what would change, for each agent, and looks up from where to where.
func (s *session) plan(ctx context.Context, u up) (*plan, error) {
	targets := u.targets
	if u.all {
		var err error
		if targets, err = s.everyAgent(ctx, u.exclude); err != nil {
			return nil, err
		}
	}
	p := &plan{Rows: []planRow{}}
	for _, t := range targets {
		o := u.order(t)
		o.intent.DryRun = true
		err := s.decide(ctx, &o)
		if r := fault.RefusalOf(err); u.all && r.GetCode() == "NO_INSTANCES" {
			continue // --all means the agents that are there
		}
		if err != nil {
			return nil, err
		}
		if err := s.addToPlan(ctx, p, t, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (s *session) addToPlan(ctx context.Context, p *plan, t target, o order) error {
	p.Changed += o.record.GetChanged()
	p.Already += o.record.GetAlready()
	p.Passed += o.record.GetPassedOver()
	p.orders = append(p.orders, o)
	if o.record.GetChanged() == 0 {
		return nil
	}
	p.targets = append(p.targets, t)
	to, err := s.versionOf(ctx, t)
	if err != nil {
		return err
	}
	rows, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{Agent: t.agent})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, ok := slices.BinarySearch(o.record.GetServerIds(), r.GetInstance().GetServerId()); ok {
			p.Rows = append(p.Rows, planRow{Server: r.GetServerName(), Agent: t.agent, From: has(r.GetInstance()).GetVersion(), To: to})
		}
	}
	return nil
}

// versionOf says to which version a target leads. Only the registry chooses; for a
// channel this is its newest image now, with the channel beside it.
func (s *session) versionOf(ctx context.Context, t target) (string, error) {
	switch by := t.image.GetBy().(type) {
	case *intentv1.ImageChoice_Version:
		return by.Version, nil
	case *intentv1.ImageChoice_ImageId:
		i, err := s.getImage(ctx, by.ImageId)
		return i.GetManifest().GetVersion(), err
	}
	channels, err := collect(ctx, pageFlags{}, s.askChannels)
	if err != nil {
		return "", err
	}
	for _, c := range channels.GetChannels() {
		if c.GetName() == t.said || t.said == "" && c.GetDefault() {
			return s.newestOf(ctx, t.agent, c)
		}
	}
	return "newest of " + t.said, nil
}

func (s *session) newestOf(ctx context.Context, agent string, c channel) (string, error) {
	images, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*catalogv1.ListImagesResponse, error) {
		return call[*catalogv1.ListImagesResponse](ctx, s, "ListImages", &catalogv1.ListImagesRequest{
			Page: p, Agent: agent, Channel: c.GetName(), State: imagev1.State_STATE_ACTIVE,
		})
	})
	if err != nil {
		return "", err
	}
	best, place := "", -1
	for _, i := range images.GetImages() {
		if n := slices.Index(c.GetImageIds(), i.GetManifest().GetId()); n > place {
			best, place = i.GetManifest().GetVersion(), n
		}
	}
	return strings.TrimSpace(best + " (newest of " + c.GetName() + ")"), nil
}

// planRows is how many rows of a plan a person is shown before the work; -o wide and JSON show all.
const planRows = 50

// showPlan prints the plan: as data when it is all that was asked for, as talk otherwise.
func (s *session) showPlan(w workFlags, p *plan) error {
	for _, o := range p.orders {
		s.say("%s", decidedText(o))
	}
	if w.dryRun {
		return show(s, planListing, p, p.Rows)
	}
	rows := p.Rows[:min(len(p.Rows), planRows)]
	if len(rows) > 0 {
		if err := printTable(s.err, s.view(), planListing.columns, rows, true); err != nil {
			return err
		}
	}
	if n := int(p.Changed) - len(rows); n > 0 {
		s.say("… and %d more", n)
	}
	return nil
}
