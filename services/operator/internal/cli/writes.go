package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/record"
)

// The flags of every command that changes something.
const (
	dryRunFlag = "dry-run"
	yesFlag    = "yes"
	noteFlag   = "message"
)

// Annotations of commands. One that destroys something asks before it does so. The calls of one that carries its note
// have it beside their requests, which have no place for it.
const (
	destroys = "destroys"
	carries  = "carries"
)

// Changes adds to a command that changes something the flags --yes, --dry-run and --message where it has none of
// its own. A dry run ends with the first call that would change something: the service checks it as any other.
func Changes(c *cobra.Command, destroying bool) {
	c.Annotations = map[string]string{}
	if c.Flags().Lookup(noteFlag) == nil {
		NoteVar(c.Flags(), new(string))
		c.Annotations[carries] = ""
	}
	if c.Flags().Lookup(dryRunFlag) == nil {
		c.Flags().Bool(dryRunFlag, false, "say what would be done; change nothing")
	}
	if c.Flags().Lookup(yesFlag) == nil {
		c.Flags().BoolP(yesFlag, "y", false, "do not ask for confirmation")
		if destroying {
			c.Annotations[destroys] = ""
		}
	}
}

// Heed reads the flags of Changes.
func (env *Env) Heed(c *cobra.Command, args []string) {
	if c.Name() == "list" && c.HasParent() {
		env.Empty = "no " + plural.Replace(c.Parent().Name()+"s")
		narrowed := len(args) > 0
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { narrowed = narrowed || f.Changed })
		if narrowed {
			env.Empty += " match"
		}
	}
	if env.DryRun, _ = c.Flags().GetBool(dryRunFlag); env.DryRun { // false where a command has no such flag
		c.SetContext(client.WithDryRun(c.Context()))
	}
	if _, ok := c.Annotations[carries]; ok && c.Flags().Changed(noteFlag) {
		env.note = c.Flags().Lookup(noteFlag).Value.String()
		c.SetContext(client.WithNote(c.Context(), env.note))
	}
	yes, _ := c.Flags().GetBool(yesFlag)
	if _, ok := c.Annotations[destroys]; ok && !yes && !env.DryRun {
		verb := strings.Split(strings.TrimPrefix(c.CommandPath(), "garrison "), " ")
		env.question = strings.Join(append(verb, args...), " ") + "?"
	}
}

// beforeWrite keeps what a dry run would do, and asks before something is destroyed.
func (env *Env) beforeWrite(ctx context.Context, name string, request proto.Message) error {
	if env.DryRun {
		text := env.Names.In(sentence(name, request, present(ctx, env, request)))
		if env.note != "" && !strings.Contains(text, "reason="+env.note) {
			text += ", because: " + env.note
		}
		Foresee(env, text)
		return nil
	}
	if env.question == "" {
		return nil
	}
	return env.Confirm(ctx, false, env.question)
}

// Foresee says what a dry run would do where its first call does not tell.
func Foresee(env *Env, text string) { env.would.Store(&text) }

// plural makes words of the plural of a noun.
var plural = strings.NewReplacer("-", " ", "ys", "ies")

// SayDry prints what a dry run would have done. The error is the ErrDryRun that ended it.
func SayDry(env *Env, err error) {
	if text := env.would.Load(); errors.Is(err, client.ErrUnchanged) {
		env.Say("would change nothing: it is done already: %s", *text)
	} else {
		env.Say("would %s", *text)
	}
}

// present returns the record that a request changes, or nil.
func present(ctx context.Context, env *Env, request proto.Message) proto.Message {
	q, ok := request.(*registryv1.PutRecordRequest)
	if !ok || q.GetExpect() == registryv1.Expect_EXPECT_ABSENT {
		return nil
	}
	next := record.Body(q.GetRecord())
	name := nameOf(next)
	if name == "" {
		return nil // it has an id of its own
	}
	have, err := All[*registryv1.ListRecordsResponse](ctx, env, record.List(record.NounOf(next)))
	if err != nil {
		return nil // the dry run itself tells why
	}
	rows := have.ProtoReflect().Get(record.FieldOf(have, next)).List()
	for i := range rows.Len() {
		if row := rows.Get(i).Message().Interface(); nameOf(row) == name {
			return row
		}
	}
	return nil
}

func nameOf(m proto.Message) string {
	named, _ := m.(interface{ GetName() string })
	if named == nil {
		return ""
	}
	return named.GetName()
}

// guarded has a client ask before it changes something.
func (env *Env) guarded(c *client.Client) *client.Client {
	c.OnWrite = env.beforeWrite
	return c
}
