// Package inventory reads and writes the objects that files declare (package declare) through the services.
package inventory

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/record"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// named is a record with a name.
type named interface {
	proto.Message
	GetName() string
}

// part is a service's response with one part of a list.
type part interface {
	proto.Message
	GetNextCursor() string
}

// list asks for a part of the records of a kind.
type list func(context.Context, *cli.Env, *apiv1.Page) (part, error)

func listed[R part](request proto.Message) list {
	return func(ctx context.Context, env *cli.Env, p *apiv1.Page) (part, error) {
		return cli.Ask[R](env, proto.Clone(request))(ctx, p)
	}
}

// lists are how the kinds are read.
var lists = map[*declare.Kind]list{
	declare.Channels:     listed[*catalogv1.ListChannelsResponse](&catalogv1.ListChannelsRequest{}),
	declare.Applications: listed[*registryv1.ListRecordsResponse](record.List(ledger.Application)),
	declare.Agents:       listed[*registryv1.ListRecordsResponse](record.List(ledger.Agent)),
	declare.Environments: listed[*registryv1.ListRecordsResponse](record.List(ledger.Environment)),
	declare.LabelRules:   listed[*registryv1.ListRecordsResponse](record.List(ledger.LabelRule)),
	declare.Servers:      listed[*registryv1.ListServersResponse](&registryv1.ListServersRequest{}),
}

// Read returns all records of the kinds, trimmed to what files hold. It keeps one part of a list at a time besides.
func Read(ctx context.Context, env *cli.Env, kinds ...*declare.Kind) (declare.Live, error) {
	live := declare.Live{}
	for _, k := range kinds {
		live[k] = map[string]proto.Message{}
		var err error
		if k == declare.Defaults {
			err = readDefaults(ctx, env, live[k])
		} else {
			err = read(ctx, env, live[k], k)
		}
		if err != nil {
			return nil, err
		}
	}
	return live, nil
}

// readDefaults puts the defaults of all environments into a map by name.
func readDefaults(ctx context.Context, env *cli.Env, into map[string]proto.Message) error {
	all, err := cli.Records[*environmentv1.Environment](ctx, env, record.List(ledger.Environment))
	for _, e := range all {
		for agent, d := range e.GetDefaults() {
			into[declare.DefaultName(e.GetName(), agent)] = declare.Defaults.Trimmed(d)
		}
	}
	return err
}

// read puts all rows of a list into a map by name.
func read(ctx context.Context, env *cli.Env, into map[string]proto.Message, k *declare.Kind) error {
	for cursor := ""; ; {
		r, err := lists[k](ctx, env, &apiv1.Page{Limit: cli.LargestPart, Cursor: cursor})
		if err != nil {
			return err
		}
		if left, ok := r.(interface{ GetLeftOut() []*apiv1.LeftOut }); ok && len(left.GetLeftOut()) > 0 {
			return cli.Refuse(fault.Internal, &apiv1.Refusal{
				Code:    code.TooLarge,
				Message: fmt.Sprintf("%s %s fits into no answer", k.Word, left.GetLeftOut()[0].GetId()),
			})
		}
		for _, row := range output.RowsOf[named](r) {
			if s, ok := row.(*serverv1.Server); ok {
				if s.GetLife() == serverv1.Life_LIFE_DYING {
					continue // it is being taken away
				}
				s.Labels = server.OwnLabels(s) // files declare no label that follows from a rule
			}
			into[row.GetName()] = k.Trimmed(row)
		}
		next := r.GetNextCursor()
		if next == "" || next == cursor {
			return ctx.Err()
		}
		cursor = next
	}
}
