// Package explain builds garrison explain, which explains an error code, or the state of a server or agent and what
// happens next.
package explain

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// tasksExplained is the number of newest tasks shown: the last one has the reason, the ones before it show whether that
// is new.
const tasksExplained = 5

// explainServer prints a server, its duties, instances and unmanaged agents, and its newest tasks; with an agent only
// what concerns that agent.
func explainServer(ctx context.Context, env *cli.Env, name string, agents []string) error {
	found, closed, err := fleet.ServerNow(ctx, env, name)
	if why := fault.RefusalOf(err); why.GetCode() == code.UnknownServer && len(agents) == 0 {
		why = proto.CloneOf(why)
		if try := shownBy(ctx, env, name); try != "" {
			why.Try = try
		}
		return fault.Refuse(fault.KindOf(err), why)
	}
	if err != nil {
		return err
	}
	agent := ""
	if len(agents) > 0 {
		agent = agents[0]
	}
	is, err := readServer(ctx, env, found, agent)
	if err != nil {
		return err
	}
	rows := []display.Explanation{display.ExplainServer(env.Output.View(), found)}
	if agent == "" {
		rows = append(rows, display.ExplainLook(found)...)
	}
	rows = append(rows, display.ExplainClosed(env.Output.View(), closed)...)
	if row, ok := display.ExplainCredentials(env.Output.View(), found); ok && agent == "" {
		rows = append(rows, row)
	}
	rows = append(rows, is.connections...)
	rows = append(rows, explainDuties(found, agent)...)
	more, err := explainInstances(ctx, env, found, agent, is)
	if err != nil {
		return err
	}
	rows = append(rows, more...)
	rows = append(rows, display.ExplainFound(env.Output.View(), found, agent)...)
	rows = append(rows, explainDefaults(found, agent, is.defaults)...)
	for _, t := range is.tasks {
		rows = append(rows, display.ExplainTask(env.Output.View(), t))
	}
	for i := range rows {
		if rows[i].Next == strings.TrimSpace("garrison explain "+found.GetName()+" "+agent) { // this is it
			rows[i].Next = ""
		}
	}
	return output.Show(env.Output, display.Explanations, display.ExplanationList{Explained: rows}, rows)
}

// shownBy returns the command that shows what an id names which is no server's: a rollout, an intent or a task.
func shownBy(ctx context.Context, env *cli.Env, id string) string {
	if cli.IDPrefix("an intent")(id) != nil {
		return ""
	}
	if _, err := fleet.RolloutID(ctx, env, id); err == nil {
		return "garrison rollout show " + id
	}
	if _, err := fleet.Intent(ctx, env, id, 0); err == nil {
		return "garrison intent show " + id
	}
	if _, err := fleet.Task(ctx, env, id); err == nil {
		return "garrison task show " + id
	}
	return ""
}

// reading is what the services know of a server, besides its record.
type reading struct {
	instances                []display.Instance
	tasks                    []display.Task
	defaults                 []display.Default
	connections, differences []display.Explanation
}

// readServer asks the services side by side: one request takes as long as all of them.
func readServer(ctx context.Context, env *cli.Env, found display.Server, agent string) (is reading, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		is.instances, err = fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{
			Server: found.GetId(), Agent: agent,
			WithExecutors: agent != "", // the rows of the server have its own executor
		})
		return err
	})
	g.Go(func() error {
		r, err := fleet.Tasks(ctx, env, cli.PageFlags{Limit: tasksExplained},
			&dispatcherv1.ListTasksRequest{ServerId: found.GetId(), Agent: agent})
		if fault.Is(err, fault.NotFound) { // the dispatcher does not know a server without tasks
			err = nil
		}
		is.tasks = r.GetTasks()
		return err
	})
	g.Go(func() (err error) {
		is.connections, err = explainConnections(ctx, env, found)
		return err
	})
	g.Go(func() (err error) {
		is.defaults, err = defaultsOf(ctx, env, found)
		return err
	})
	g.Go(func() (err error) {
		is.differences, err = explainDifferences(ctx, env, found, agent)
		return err
	})
	err = g.Wait() // before is is read
	return is, err
}

// explainInstances returns the rows of a server's instances, of one with its origin, and in what they differ.
func explainInstances(
	ctx context.Context, env *cli.Env, found display.Server, agent string, is reading,
) (rows []display.Explanation, err error) {
	wanted := false
	for _, i := range is.instances {
		wanted = wanted || i.GetInstance().GetWanted() != nil
		rows = append(rows, display.ExplainInstance(env.Output.View(), i))
		rows = append(rows, display.ExplainStops(env.Output.View(), i)...)
		if agent == "" {
			continue
		}
		origin, err := explainOrigin(ctx, env, i)
		if err != nil {
			return nil, err
		}
		rows = append(rows, origin...)
	}
	if agent != "" {
		if len(is.instances) == 0 {
			rows = append(rows, notWanted(found, agent))
		}
		newest, err := explainNewest(ctx, env, found, agent, wanted, is.defaults)
		if err != nil {
			return nil, err
		}
		rows = append(rows, newest...)
	}
	return append(rows, is.differences...), nil
}

// defaultsOf returns the defaults of a server's environment, and their state on the server.
func defaultsOf(ctx context.Context, env *cli.Env, found display.Server) ([]display.Default, error) {
	if found.GetEnvironment() == "" {
		return nil, nil
	}
	q := &registryv1.ListDefaultsRequest{Server: found.GetId()}
	r, err := cli.Call[*registryv1.ListDefaultsResponse](ctx, env, q)
	return r.GetDefaults(), err
}

// explainDefaults returns a row for each default of a server's environment that is not on the server.
func explainDefaults(found display.Server, agent string, defaults []display.Default) (rows []display.Explanation) {
	for _, d := range defaults {
		row, missing := display.ExplainDefault(found, d)
		if missing && (agent == "" || agent == row.Name) {
			rows = append(rows, row)
		}
	}
	return rows
}

// explainConnections returns a row when another machine may use a server's credentials.
func explainConnections(
	ctx context.Context, env *cli.Env, found display.Server,
) (rows []display.Explanation, err error) {
	r, err := cli.Call[*accessv1.ListSessionsResponse](ctx, env, &accessv1.ListSessionsRequest{ServerId: found.GetId()})
	if fault.Is(err, fault.Unavailable) { // the rest is explained without the access service, too
		return nil, nil
	}
	for _, s := range r.GetServers() {
		if row, suspicious := display.ExplainSessions(found, s); suspicious {
			rows = append(rows, row)
		}
	}
	return rows, err
}

// explainDuties returns the duties of a server, or those that concern one agent.
func explainDuties(found *serverv1.Server, agent string) (rows []display.Explanation) {
	for _, d := range found.GetDuties() {
		if agent == "" || d.GetAgent() == agent || d.GetAgent() == "" {
			rows = append(rows, display.ExplainDuty(found, d))
		}
	}
	return rows
}

// notWanted returns the row of an agent without an instance.
func notWanted(found *serverv1.Server, agent string) display.Explanation {
	return display.Explanation{
		What: "agent", Name: agent, State: "not wanted", Next: "garrison install " + agent + " --on " + found.GetName(),
	}
}

// examples is how many differences of an agent are read; the others are counted.
const examples = 1000

// explainAgent prints where an agent runs, in which versions, its defaults, and what is wrong with it: a row for each
// cause, with an example.
func explainAgent(ctx context.Context, env *cli.Env, agent *agentv1.Agent) error {
	var counts *registryv1.Counts
	var defaults []display.Default
	var holds []display.Hold
	var blocks []display.Block
	var check *registryv1.CheckFleetResponse
	g, asked := errgroup.WithContext(ctx)
	g.Go(func() error {
		r, err := cli.Call[*registryv1.CountInstancesResponse](asked, env, &registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{
				Agent: agent.GetName(), WithExternal: true, WithExecutors: agent.GetKind() == agentv1.Kind_KIND_SELF,
			},
			By: []string{"version"}, Top: versionsExplained,
		})
		counts = r.GetCounts()
		return err
	})
	g.Go(func() error {
		r, err := cli.Call[*registryv1.ListDefaultsResponse](asked, env,
			&registryv1.ListDefaultsRequest{Agent: agent.GetName()})
		defaults = r.GetDefaults()
		return err
	})
	g.Go(func() (err error) {
		check, err = fleet.Compare(asked, env, &registryv1.CheckFleetRequest{Agent: agent.GetName()}, examples)
		return err
	})
	g.Go(func() (err error) {
		holds, err = recordsOf[display.Hold](asked, env, ledger.Hold, agent.GetName())
		return err
	})
	g.Go(func() (err error) {
		blocks, err = recordsOf[display.Block](asked, env, ledger.Block, agent.GetName())
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	rows := []display.Explanation{display.ExplainAgent(agent, counts)}
	rows = append(rows, display.ExplainVersions(agent.GetName(), counts)...)
	for _, d := range defaults {
		rows = append(rows, display.ExplainAgentDefault(d))
	}
	for _, h := range holds {
		rows = append(rows, display.ExplainHold(agent.GetName(), h))
	}
	for _, b := range blocks {
		rows = append(rows, display.ExplainBlock(b))
	}
	rows = append(rows, display.ExplainCauses(agent.GetName(), check)...)
	return output.Show(env.Output, display.Explanations, display.ExplanationList{Explained: rows}, rows)
}

// recordsOf returns the records of a noun that concern an agent.
func recordsOf[T proto.Message](ctx context.Context, env *cli.Env, noun ledger.Noun, agent string) ([]T, error) {
	q := record.List(noun)
	q.Agent = agent
	return cli.Records[T](ctx, env, q)
}

// versionsExplained is how many versions of an agent have a row.
const versionsExplained = 10
