package agentlog

import (
	"context"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// mostServers is of how many servers the output is read together.
const mostServers = 20

// inTurn is a writer for several goroutines.
type inTurn struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *inTurn) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(data)
}

// readSeveral prints the output of an agent on the servers that the flags select: one after the other, or together
// where it follows. A server whose output cannot be read is named, and the others are read.
func readSeveral(ctx context.Context, env *cli.Env, f logFlags, agent string) error {
	rows, err := serversWith(ctx, env, f, agent)
	if err != nil {
		return err
	}
	at := 1
	if f.follow {
		at = len(rows)
	}
	together := *env
	together.Out, together.Err = &inTurn{out: env.Out}, &inTurn{out: env.Err}
	var mu sync.Mutex
	failed := 0
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(at)
	for _, row := range rows {
		g.Go(func() error {
			p := newPrinter(&together, f)
			p.name = row.GetServerName()
			q := &registryv1.OpenLogRequest{
				Server: row.GetInstance().GetServerId(), Agent: agent, Start: proto.CloneOf(f.start()),
			}
			err := read(reading, &together, f, q, p)
			if err == nil || ctx.Err() != nil || fault.Is(err, fault.Denied) { // no other server allows it
				return err
			}
			together.Say("%s: %s", p.name, cli.LineOf(err))
			mu.Lock()
			defer mu.Unlock()
			failed++
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	switch failed {
	case 0:
		return nil
	case len(rows):
		return cli.Ended(cli.ExitError)
	}
	return cli.Ended(cli.ExitPartly)
}

// serversWith returns the instances of an agent on the selected servers, at most mostServers.
func serversWith(ctx context.Context, env *cli.Env, f logFlags, agent string) ([]*registryv1.InstanceRow, error) {
	on, err := f.servers.Selector()
	if err != nil {
		return nil, err
	}
	r, err := cli.Call[*registryv1.ListInstancesResponse](ctx, env, &registryv1.ListInstancesRequest{
		On: on, Agent: agent, Page: &apiv1.Page{Limit: mostServers + 1},
	})
	switch n := len(r.GetInstances()); {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fault.Refusef(fault.NotFound, code.NoServers, "no selected server has agent %q", agent).
			Try("garrison instance list --agent " + listing.Quote(agent))
	case n > mostServers:
		return nil, cli.Usage("more than %d of the selected servers have agent %q. Try: a narrower --on", mostServers,
			agent)
	}
	return r.GetInstances(), nil
}
