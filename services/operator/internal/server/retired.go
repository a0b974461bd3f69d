package server

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

const (
	// mostSelected is how many servers one command forgets or cleans at most.
	mostSelected = 10_000
	// namedAtMost is how many of them a question names.
	namedAtMost = 20
)

// oneOrMany accepts one server, several, or a selection instead.
func oneOrMany(on *selector.Flags) func(a []string) error {
	return func(a []string) error {
		switch {
		case len(a) == 0 && len(on.On) == 0:
			return cli.Usage("a server is missing. Try: --on SELECTOR")
		case len(a) > 0 && len(on.On) > 0:
			return cli.Usage("name servers or select them with --on, not both")
		}
		return nil
	}
}

// picked returns the servers that names or flags select and that a request lists besides, page by page.
func picked(
	ctx context.Context, env *cli.Env, on selector.Flags, names []string, q *registryv1.ListServersRequest, what string,
) ([]display.Server, error) {
	if len(names) > 0 {
		on.On = []string{strings.Join(names, ",")}
	}
	var err error
	if q.On, err = on.Selector(); err != nil {
		return nil, err
	}
	r, err := cli.Collect(ctx, cli.PageFlags{Limit: mostSelected + 1},
		cli.Ask[*registryv1.ListServersResponse](env, q))
	if err != nil {
		return nil, err
	}
	found := r.GetServers()
	switch n := len(found); {
	case n == 0:
		life := "dead"
		if q.GetLife() == serverv1.Life_LIFE_INVITED {
			life = "invited"
		}
		return nil, cli.Usage("no %s is selected. Try: garrison server list --life %s %s", what, life,
			selection.Args(q.GetOn()))
	case n > mostSelected:
		return nil, cli.Usage("more than %d servers are selected; select fewer with --on, and repeat", mostSelected)
	}
	return found, nil
}

// sayServers prints which servers a question is about, the first of many.
func sayServers(env *cli.Env, servers []display.Server) {
	for n, s := range servers {
		if n == namedAtMost {
			env.Say("… and %d more; --dry-run lists all", len(servers)-n)
			return
		}
		env.Say("server %s (%s), %s", s.GetName(), s.GetId(), display.ServerState(s))
	}
}

// each does something with servers, some at a time, until ctx is done, and returns how many it failed for. do returns
// an error that it printed.
func each(
	ctx context.Context, servers []display.Server, atOnce int, do func(display.Server) error,
) (failed int, err error) {
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, s := range servers {
		all.Go(func() error {
			e := ctx.Err()
			if e == nil {
				e = do(s)
			}
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				failed, err = failed+1, cli.FirstError(err, e)
			}
			return nil
		})
	}
	_ = all.Wait()
	return failed, err
}

// concludeMany returns the exit of a command for several servers, some of which failed.
func concludeMany(ctx context.Context, env *cli.Env, all, failed int, err error, again string) error {
	switch {
	case failed == 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed == all:
		return cli.Ended(cli.CodeOf(err))
	}
	env.Say("not done: %s of %d; %s", listing.Plural(failed, "server"), all, again)
	return cli.Ended(cli.ExitPartly)
}

// quietly makes the messages of several goroutines whole lines.
func quietly(env *cli.Env) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		mu.Lock()
		defer mu.Unlock()
		env.Say("%s", text)
	}
}
