package instances

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/page"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/servers"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// Checks compares what is wanted with what is there.
type Checks struct {
	Records   *records.Records
	Presence  *beats.Watch
	Duties    *servers.Duties
	Unknown   *beats.Unknown
	Externals *Externals
	Defaults  *environments.Work
}

// ServersAPart bounds how many servers one part looks at, so that no check holds up facts for long: with ten agents
// each, this many take 10 ms of a processor. Behind a fact that waits for its turn, every other read waits too.
const ServersAPart = 500

// Fleet compares one part of the fleet.
func (a *Checks) Fleet(
	ctx context.Context, _ bus.Caller, q *registryv1.CheckFleetRequest,
) (*registryv1.CheckFleetResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	from, err := parseCheckCursor(q.Page.GetCursor())
	if err != nil {
		return nil, err
	}
	c := checking{
		api: a, ask: q, limit: limit, from: from, causes: map[string]uint32{},
		drift: map[string]bool{}, hearing: a.Presence.HearingSince(),
		resp: &registryv1.CheckFleetResponse{PresenceHeld: a.Presence.Held()},
	}
	err = a.Records.Decider.Query(ctx, c.run)
	return request.Answer(c.resp, err)
}

// checkCursor is where a part begins: at a difference of a server.
type checkCursor struct {
	server string
	row    int
}

func (c checkCursor) String() string { return c.server + "." + strconv.Itoa(c.row) }

func parseCheckCursor(text string) (c checkCursor, err error) {
	if text == "" {
		return c, nil
	}
	server, row, ok := strings.Cut(text, ".")
	c.server = server
	if c.row, err = strconv.Atoi(row); !ok || err != nil || c.row < 0 {
		return c, request.Invalid(code.Invalid, "%.80q is not where a part of a check ended", text)
	}
	return c, nil
}

// checking is one part of a check that is being made.
type checking struct {
	api     *Checks
	ask     *registryv1.CheckFleetRequest
	limit   int
	from    checkCursor
	hearing time.Time // since when beats are received without a break
	resp    *registryv1.CheckFleetResponse
	causes  map[string]uint32
	drift   map[string]bool // environments whose policy the answer names
	merged  func(*instancev1.Instance) ([]byte, *apiv1.Refusal)
	waiting map[string][]defaults.Waiting // by the server's id
	bytes   int
}

// run must be called inside Query.
func (c *checking) run() error {
	v := c.api.Records.View
	if _, ok := v.Agent(c.ask.Agent); c.ask.Agent != "" && c.ask.Agent != view.Executor && !ok {
		return request.NotFound(intent.UnknownAgent(v, c.ask.Agent))
	}
	query, refusal := selector.NewQuery(v, c.ask.On)
	if refusal != nil {
		return request.NotFound(refusal)
	}
	c.merged = intent.Merged(v, c.api.Records.Secrets)
	looked, part := 0, []*serverv1.Server{}
	for s := range v.ServersNear(query, c.from.server) {
		if looked++; looked > ServersAPart {
			c.resp.NextCursor = checkCursor{server: s.Id}.String()
			break
		}
		if query.Match(s) {
			part = append(part, s)
		}
	}
	if c.ask.Scope != registryv1.CheckScope_CHECK_SCOPE_SERVERS {
		c.waiting = c.api.Defaults.WaitingOn(part, c.ask.Agent)
	}
	for _, s := range part {
		if !c.compare(s) {
			break
		}
	}
	if c.resp.NextCursor == "" {
		c.addUnplaced()
	}
	if c.resp.NextCursor == "" {
		c.addUnknown()
	}
	c.addDrift()
	for _, cause := range slices.Sorted(maps.Keys(c.causes)) {
		c.resp.Causes = append(c.resp.Causes, &registryv1.CauseCount{Cause: cause, Count: c.causes[cause]})
	}
	return nil
}

// compare adds the differences of a server; false when the part is full.
func (c *checking) compare(s *serverv1.Server) bool {
	rows, agents := drift.Of(c.situation(s), drift.Scope{
		Agent:   c.ask.Agent,
		Servers: c.ask.Scope != registryv1.CheckScope_CHECK_SCOPE_AGENTS,
		Agents:  c.ask.Scope != registryv1.CheckScope_CHECK_SCOPE_SERVERS,
	})
	if c.countsExecutor(s) {
		agents++
	}
	if e, ok := c.api.Records.View.Environment(s.Environment); ok && (len(rows) > 0 || e.Braked != nil) {
		c.drift[e.Name] = true
	}
	first := 0
	if s.Id == c.from.server {
		first = min(c.from.row, len(rows))
	}
	for n, d := range rows[first:] {
		if !c.add(d) {
			c.resp.NextCursor = checkCursor{s.Id, first + n}.String()
			return false
		}
	}
	if s.Life != serverv1.Life_LIFE_DEAD || len(rows) > 0 { // it counts in the part that ends with it
		c.resp.Servers, c.resp.Agents = c.resp.Servers+1, c.resp.Agents+uint32(agents)
	}
	return true
}

// countsExecutor reports whether the executor of a server, which has no instance, is counted as an agent: only where
// it is asked for. Nothing is wanted of it, and what is wrong with it is a difference of its server.
func (c *checking) countsExecutor(s *serverv1.Server) bool {
	return c.ask.Scope != registryv1.CheckScope_CHECK_SCOPE_SERVERS &&
		c.ask.Agent == view.Executor && c.api.Records.View.ExecutorByHand(s) != nil
}

// add adds a difference; false when the part has no room for it.
func (c *checking) add(d *registryv1.Difference) bool {
	if !c.ask.CountOnly {
		size := proto.Size(d)
		if len(c.resp.Differences) >= c.limit || len(c.resp.Differences) > 0 && c.bytes+size > page.Bytes {
			return false
		}
		c.bytes += size
		c.resp.Differences = append(c.resp.Differences, proto.CloneOf(d))
	}
	c.causes[d.Cause]++
	return true
}

func (c *checking) situation(s *serverv1.Server) drift.Situation {
	view, instances := c.api.Records.View, c.api.Records.View.InstancesOf(s.Id)
	if c.ask.Agent != "" {
		instances = func(yield func(*instancev1.Instance) bool) {
			if i, ok := view.Instance(s.Id, c.ask.Agent); ok {
				yield(i)
			}
		}
	}
	clock := c.api.Presence.ClockOf(s)
	at := drift.Situation{
		ClockAhead: clock.Ahead(), ClockSince: clock.DiffersSince(),
		Server: s, Instances: instances, Image: view.Image, Now: c.api.Records.Now(),
		Externals:   c.api.Externals.on(s.Id),
		ConfirmedAt: c.api.Presence.Last(s.Id).SettledAt, Listening: c.hearing, Beat: c.api.Presence.Spacing(),
		Heals: view.Heals(s), Merged: c.merged, Blocked: intent.BlockedOn(view, s),
		Signed: c.api.Records.Signed,
	}
	for _, w := range c.waiting[s.Id] {
		at.Defaults = append(at.Defaults, drift.Default{Agent: w.Agent, Why: w.Why, Since: w.Since})
	}
	if s.Life == serverv1.Life_LIFE_DYING || s.Life == serverv1.Life_LIFE_DEAD || s.Reinstall != nil {
		at.Duties = c.api.Duties.Left(s)
	}
	return at
}

// addDrift adds what is done about drift in the environments of the servers that differ.
func (c *checking) addDrift() {
	for _, name := range slices.Sorted(maps.Keys(c.drift)) {
		e, _ := c.api.Records.View.Environment(name)
		c.resp.Drift = append(c.resp.Drift, &registryv1.EnvironmentDrift{
			Environment: name, Policy: environment.DriftPolicy(e), BrakePercent: environment.DriftBrake(e),
			Braked: proto.CloneOf(e.GetBraked()),
		})
	}
}

// addUnknown adds, behind the last server of a check of the whole fleet, the machines that beat and are not under
// management, as far as there is room: they are few, and this replica may hear others than another one.
func (c *checking) addUnknown() {
	if c.ask.On != nil || c.ask.Agent != "" || c.ask.Scope == registryv1.CheckScope_CHECK_SCOPE_AGENTS {
		return
	}
	rows, _ := c.api.Unknown.Rows()
	for _, u := range rows {
		c.resp.Servers++
		c.add(&registryv1.Difference{
			ServerId: u.ServerId, ServerName: cmp.Or(u.Name, u.Hostname), Wanted: "not under management",
			Observed: "beats", Cause: u.Code, Since: u.Since,
			Reason:      fmt.Sprintf("%s, on host %s", u.Reason, u.Hostname),
			ConfirmedAt: u.HeardAt, Remedy: registryv1.Remedy_REMEDY_PERSON, Cure: "garrison explain " + u.Code,
		})
	}
}
