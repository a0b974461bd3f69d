package operator

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// keepable is what people create, change and delete by name: applications, environments, agents.
type keepable interface {
	proto.Message
	GetName() string
	GetMetadata() map[string]string
}

// kept says what is particular about one noun that is keepable; its commands are made alike.
type kept[T keepable] struct {
	word, command, short string
	without              string // what hangs on it and keeps it from being deleted
	whose                string // whose configuration its metadata is
	listing              listing[T]
	blank                func(name string) T
	setMetadata          func(T, map[string]string)
	flags                func(f *pflag.FlagSet, said *edits[T], update bool) // beside its metadata

	all    func(context.Context) ([]T, error)
	list   func(context.Context, pageFlags) error
	create func(context.Context, T) (T, error)
	change func(context.Context, T) (T, error)
	remove func(ctx context.Context, name string) error
}

// edits are what the flags of a command line change, in the order in which they are said.
type edits[T any] []func(T)

// editVar adds a flag that changes something; a flag that is not said changes nothing.
func editVar[T, V any](f *pflag.FlagSet, said *edits[T], name, help string, read func(string) (V, error), set func(T, V)) {
	f.Var(flagValue{read: func(text string) error {
		v, err := read(text)
		*said = append(*said, func(t T) { set(t, v) })
		return err
	}}, name, help)
}

// readText reads a text that must pass a check.
func readText(c check) func(string) (string, error) {
	return func(s string) (string, error) { return s, c(s) }
}

// anyText takes what only the service can judge.
func anyText(string) error { return nil }

func keptCommands[T keepable](s *session, k kept[T]) *cobra.Command {
	return group(k.command, k.short, k.createCommand(s), k.listCommand(), k.showCommand(s), k.updateCommand(s), k.deleteCommand(s))
}

// find finds one by name, and names the nearest when there is none.
func (k kept[T]) find(ctx context.Context, name string) (found T, err error) {
	all, err := k.all(ctx)
	if err != nil {
		return found, err
	}
	var names []string
	for _, t := range all {
		if t.GetName() == name {
			return t, nil
		}
		names = append(names, t.GetName())
	}
	return found, refuse(fault.NotFound, &apiv1.Refusal{
		Code: "UNKNOWN_" + strings.ToUpper(k.word), Message: fmt.Sprintf("no %s %q (%d searched)", k.word, name, len(names)),
		Nearest: nearest(name, names), Try: "garrison " + k.command + " list",
	})
}

func (k kept[T]) createCommand(s *session) *cobra.Command {
	var said edits[T]
	var f metadataFlags
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an " + k.word, Args: exactly("NAME"), PreRunE: prints(s, k.listing),
		RunE: func(c *cobra.Command, a []string) error {
			t, err := k.edited(k.blank(a[0]), said, f)
			if err != nil {
				return err
			}
			if t, err = k.create(c.Context(), t); err != nil {
				return err
			}
			return changed(s, k.listing, t, "%s %s created", k.word, a[0])
		},
	}
	k.flags(c.Flags(), &said, false)
	f.add(c, k.whose, false)
	return c
}

// edited gives a thing as the flags want it.
func (k kept[T]) edited(t T, said edits[T], f metadataFlags) (T, error) {
	for _, edit := range said {
		edit(t)
	}
	values, err := f.apply(t.GetMetadata())
	k.setMetadata(t, values)
	return t, err
}

func (k kept[T]) updateCommand(s *session) *cobra.Command {
	var said edits[T]
	var f metadataFlags
	c := &cobra.Command{
		Use: "update NAME", Short: "Change what is recorded about an " + k.word + "; what is not said stays", Args: exactly("NAME"), PreRunE: prints(s, k.listing),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := k.find(c.Context(), a[0])
			if err != nil {
				return err
			}
			now, err := k.edited(proto.CloneOf(found), said, f)
			if err != nil {
				return err
			}
			for _, name := range f.neverSet(found.GetMetadata()) {
				s.say("note: --unset %s takes nothing away: %s %s has no value of that name", name, k.word, a[0])
			}
			if proto.Equal(found, now) {
				s.say("nothing to do")
				return nil
			}
			if now, err = k.change(c.Context(), now); err != nil {
				return err
			}
			text := "%s %s changed"
			if !maps.Equal(found.GetMetadata(), now.GetMetadata()) {
				text += "; agents see it with garrison configure or garrison up"
			}
			return changed(s, k.listing, now, text, k.word, a[0])
		},
	}
	k.flags(c.Flags(), &said, true)
	f.add(c, k.whose, true)
	return c
}

func (k kept[T]) listCommand() *cobra.Command {
	var page pageFlags
	c := &cobra.Command{
		Use: "list", Short: "List " + k.word + "s", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return k.list(c.Context(), page) },
	}
	page.add(c, 0)
	return c
}

func (k kept[T]) showCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show everything about an " + k.word, Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := k.find(c.Context(), a[0])
			if err != nil {
				return err
			}
			return showOne(s, s.view(), k.listing, found)
		},
	}
}

func (k kept[T]) deleteCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete an " + k.word + " without " + k.without, Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error { return s.deleted(k.word, a[0], k.remove(c.Context(), a[0])) },
	}
}
