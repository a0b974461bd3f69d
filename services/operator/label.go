package operator

import (
	"context"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func (s *session) serverLabelCommand() *cobra.Command {
	var env string
	c := &cobra.Command{
		Use: "label SERVER [LABEL=VALUE | LABEL-]…", Short: "Set labels (LABEL=VALUE), take them away (LABEL-), or move to another environment", PreRunE: prints(s, serverListing),
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 || len(a) == 1 && !c.Flags().Changed("env") {
				return usage("garrison server label wants a server and a change. Try: garrison server label SERVER LABEL=VALUE")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error {
			q, err := changeOf(a[0], a[1:])
			if err != nil {
				return err
			}
			if c.Flags().Changed("env") {
				q.Environment = &env
			}
			return s.label(c.Context(), q)
		},
	}
	textVar(c.Flags(), &env, "env", orNone(aName("environment")), "the `ENVIRONMENT` it belongs to; empty means none")
	return c
}

// label changes a server, and says when there was nothing to change.
func (s *session) label(ctx context.Context, q *registryv1.ChangeServerRequest) error {
	before, err := s.getServer(ctx, q.GetServer())
	if err != nil {
		return err
	}
	r, err := call[*registryv1.ChangeServerResponse](ctx, s, "ChangeServer", q)
	if err != nil {
		return err
	}
	now := r.GetServer()
	for _, label := range q.GetUnsetLabels() {
		if _, ok := before.GetLabels()[label]; !ok {
			s.say("note: %s- takes nothing away: server %s has no label of that name", label, now.GetName())
		}
	}
	if maps.Equal(before.GetLabels(), now.GetLabels()) && before.GetEnvironment() == now.GetEnvironment() {
		return changed(s, serverListing, now, "server %s unchanged", now.GetName())
	}
	return changed(s, serverListing, now, "server %s changed", now.GetName())
}

// changeOf reads LABEL=VALUE and LABEL- words.
func changeOf(server string, words []string) (*registryv1.ChangeServerRequest, error) {
	q := &registryv1.ChangeServerRequest{Server: server, SetLabels: map[string]string{}}
	for _, w := range words {
		if label, ok := strings.CutSuffix(w, "-"); ok && !strings.Contains(w, "=") && label != "" {
			q.UnsetLabels = append(q.UnsetLabels, label)
			continue
		}
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, usage("%q is neither LABEL=VALUE nor LABEL-", w)
		}
		q.SetLabels[k] = v
	}
	return q, nil
}
