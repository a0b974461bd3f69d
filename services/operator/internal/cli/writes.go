package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/record"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// The flags of every command that changes something.
const (
	dryRunFlag = "dry-run"
	yesFlag    = "yes"
	noteFlag   = "message"
)

// Annotations of commands. One that destroys something asks before it does so on a terminal. The calls of one that
// carries its note have it beside their requests, which have no place for it.
const (
	destroys = "destroys"
	carries  = "carries"
)

// Changes adds to a command that changes something those of the flags --yes, --dry-run and --message that it has not by
// itself. A dry run ends before the first call that changes something, and says what that one would have done.
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
		env.empty = "no " + strings.ReplaceAll(c.Parent().Name(), "-", " ") + "s"
		narrowed := len(args) > 0
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { narrowed = narrowed || f.Changed })
		if narrowed {
			env.empty += " match"
		}
	}
	env.DryRun, _ = c.Flags().GetBool(dryRunFlag) // false where a command has no such flag
	if _, ok := c.Annotations[carries]; ok && c.Flags().Changed(noteFlag) {
		c.SetContext(client.WithNote(c.Context(), c.Flags().Lookup(noteFlag).Value.String()))
	}
	yes, _ := c.Flags().GetBool(yesFlag)
	if _, ok := c.Annotations[destroys]; ok && !yes && !env.DryRun && IsTerminal(env.In) {
		verb := strings.Split(strings.TrimPrefix(c.CommandPath(), "garrison "), " ")
		env.question = strings.Join(append(verb, args...), " ") + "?"
	}
}

// ErrDryRun ends a dry run.
var ErrDryRun = errors.New("nothing changed: it is a dry run")

// beforeWrite ends a dry run, and asks before something is destroyed.
func (env *Env) beforeWrite(ctx context.Context, name string, request proto.Message) error {
	if _, seals := request.(*registryv1.SealSecretsRequest); seals {
		return nil // it encrypts, and records nothing
	}
	if env.DryRun {
		what, fields := described(name, request)
		env.Say("would %s: %s", what, fieldsText(fields.ProtoReflect()))
		return ErrDryRun
	}
	if env.question == "" {
		return nil
	}
	question := env.question
	env.question = ""
	return env.Confirm(ctx, false, question)
}

// guarded has a client ask before it changes something.
func (env *Env) guarded(c *client.Client) *client.Client {
	c.OnWrite = env.beforeWrite
	return c
}

// verbs are what putting a record does.
var verbs = map[registryv1.Expect]string{
	registryv1.Expect_EXPECT_UNSPECIFIED: "set",
	registryv1.Expect_EXPECT_ABSENT:      "create",
	registryv1.Expect_EXPECT_PRESENT:     "change",
}

// described returns what a request does, and the message with the fields that say so.
func described(name string, request proto.Message) (string, proto.Message) {
	switch q := request.(type) {
	case *registryv1.PutRecordRequest:
		body := record.Body(q.GetRecord())
		return verbs[q.GetExpect()] + " " + spaced(string(body.ProtoReflect().Descriptor().Name())), body
	case *registryv1.DeleteRecordRequest:
		rest := proto.CloneOf(q)
		rest.Noun = ""
		noun := q.GetNoun()
		if noun == string(ledger.LabelRule) {
			noun = "label rule" // as a put calls it
		}
		return "delete " + noun, rest
	}
	return spaced(name), request
}

// spaced returns the name of a method as words: CreateAgent as create agent.
func spaced(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

const (
	// mostFields is how much of a request a dry run prints, so that it stays a line or two.
	mostFields = 300
	// mostValue is how much of one value.
	mostValue = 60
)

// fieldsText returns the fields of a request that are set, as name=value.
func fieldsText(m protoreflect.Message) string {
	return cut(strings.Join(fieldsOf(m), " "), mostFields)
}

func fieldsOf(m protoreflect.Message) (out []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		name, value := string(f.Name()), m.Get(f)
		switch {
		case f.IsMap():
			out = append(out, pairsOf(name, value.Map())...)
		case f.IsList():
			for n := range min(value.List().Len(), mostFields) {
				out = append(out, valuesOf(f, name, value.List().Get(n))...)
			}
		default:
			out = append(out, valuesOf(f, name, value)...)
		}
	}
	return out
}

// pairsOf returns the pairs of a map, sorted, without what is secret in them.
func pairsOf(name string, m protoreflect.Map) (out []string) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		out = append(out, name+"."+k.String()+"="+cut(metadata.Text(v.String()), mostValue))
		return true
	})
	slices.Sort(out)
	return out
}

// valuesOf returns the fields of a message, or one value.
func valuesOf(f protoreflect.FieldDescriptor, name string, v protoreflect.Value) []string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if inner := fieldsOf(v.Message()); len(inner) > 0 {
			return inner
		}
		return []string{name}
	case protoreflect.EnumKind:
		if d := f.Enum().Values().ByNumber(v.Enum()); d != nil {
			return []string{name + "=" + output.WordOf(f.Enum(), string(d.Name()))}
		}
	case protoreflect.BytesKind:
		return []string{fmt.Sprintf("%s=%x", name, v.Bytes()[:min(6, len(v.Bytes()))])}
	}
	return []string{name + "=" + cut(fmt.Sprint(v.Interface()), mostValue)}
}

// cut returns a text of at most most characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
