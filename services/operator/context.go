package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// contextRow is a saved context, without its secrets.
type contextRow struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Actor   string `json:"actor"`
	Role    string `json:"role"`
	Current bool   `json:"current"`
}

type contextList struct {
	Contexts []contextRow `json:"contexts"`
}

var contextTable = listing[contextRow]{
	name: func(c contextRow) string { return c.Name },
	columns: []column[contextRow]{
		{title: "NAME", value: func(_ view, c contextRow) string { return c.Name }},
		{title: "CURRENT", value: func(_ view, c contextRow) string { return yes(c.Current) }},
		{title: "URL", value: func(_ view, c contextRow) string { return c.URL }},
		{title: "ACTOR", value: func(_ view, c contextRow) string { return c.Actor }},
		{title: "ROLE", value: func(_ view, c contextRow) string { return c.Role }},
	},
}

func (s *session) contextCommands() *cobra.Command {
	return group("context", "Where the bus is, and with which credentials",
		&cobra.Command{
			Use: "add NAME FILE", Short: "Save a context file under a name", Args: exactly("NAME", "FILE"),
			RunE: func(_ *cobra.Command, a []string) error { return s.addContext(a[0], a[1]) },
		},
		&cobra.Command{
			Use: "list", Short: "List the saved contexts", Args: exactly(),
			RunE: func(*cobra.Command, []string) error { return s.listContexts() },
		},
		&cobra.Command{
			Use: "use NAME", Short: "Use a saved context from now on", Args: exactly("NAME"),
			RunE: func(_ *cobra.Command, a []string) error { return s.useContext(a[0]) },
		})
}

// configDir is where contexts are kept.
func (s *session) configDir() (string, error) {
	if d := s.getenv("XDG_CONFIG_HOME"); d != "" {
		return filepath.Join(d, "garrison"), nil
	}
	if d := s.getenv("HOME"); d != "" {
		return filepath.Join(d, ".config", "garrison"), nil
	}
	return "", usage("neither XDG_CONFIG_HOME nor HOME is set; say --context FILE")
}

func contextPath(dir, name string) string { return filepath.Join(dir, "contexts", name+".json") }

// findContext reads the context that was asked for: --context, GARRISON_CONTEXT, or the one in use.
func (s *session) findContext() (trust.Context, error) {
	for _, asked := range []string{s.context, s.getenv("GARRISON_CONTEXT")} {
		if asked != "" {
			return s.readContext(asked)
		}
	}
	if dir, err := s.configDir(); err == nil {
		if name := currentContext(dir); name != "" {
			return s.readContext(name)
		}
	}
	return trust.Context{}, exit{code: exitUsage, err: refuse(fault.Invalid, &apiv1.Refusal{
		Code:    "NO_CONTEXT",
		Message: "nobody said where the bus is; a context file does (garrisond writes operator.json into its data directory), with --context FILE, GARRISON_CONTEXT=FILE, or saved under a name",
		Try:     "garrison context add NAME FILE",
	})}
}

// readContext reads a context by path or by name.
func (s *session) readContext(asked string) (trust.Context, error) {
	if ident.CheckName("context", asked) != nil {
		return asUsage(trust.ReadContext(asked))
	}
	dir, err := s.configDir()
	if err != nil {
		return trust.Context{}, err
	}
	c, err := trust.ReadContext(contextPath(dir, asked))
	if !errors.Is(err, fs.ErrNotExist) {
		return asUsage(c, err)
	}
	if c, err := trust.ReadContext(asked); !errors.Is(err, fs.ErrNotExist) {
		return asUsage(c, err)
	}
	return c, exit{code: exitUsage, err: s.noContext(dir, asked)}
}

func asUsage(c trust.Context, err error) (trust.Context, error) {
	if err != nil {
		err = exit{code: exitUsage, err: err}
	}
	return c, err
}

func (s *session) noContext(dir, name string) error {
	names := contextNames(dir)
	return refuse(fault.NotFound, &apiv1.Refusal{
		Code:    "UNKNOWN_CONTEXT",
		Message: fmt.Sprintf("no context %q is saved (%d are)", name, len(names)),
		Nearest: nearest(name, names),
		Try:     "garrison context list",
	})
}

func contextNames(dir string) []string {
	paths, _ := filepath.Glob(contextPath(dir, "*")) // the only error is a bad pattern
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(p), ".json")
	}
	return names
}

func currentContext(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "context"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (s *session) addContext(name, file string) error {
	if err := ident.CheckName("context", name); err != nil {
		return usageError{err.Error()}
	}
	c, err := asUsage(trust.ReadContext(file))
	if err != nil {
		return err
	}
	dir, err := s.configDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "contexts"), 0o700); err != nil {
		return err
	}
	if err := c.Write(contextPath(dir, name)); err != nil {
		return err
	}
	s.say("context %s saved: %s as %s", name, c.URL, c.Actor)
	if currentContext(dir) != "" {
		return nil
	}
	return s.useContext(name)
}

func (s *session) useContext(name string) error {
	dir, err := s.configDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(contextPath(dir, name)); err != nil {
		return s.noContext(dir, name)
	}
	if err := os.WriteFile(filepath.Join(dir, "context"), []byte(name+"\n"), 0o600); err != nil {
		return err
	}
	s.say("context %s is used from now on", name)
	return nil
}

func (s *session) listContexts() error {
	dir, err := s.configDir()
	if err != nil {
		return err
	}
	list := contextList{Contexts: []contextRow{}}
	for _, name := range contextNames(dir) {
		c, err := trust.ReadContext(contextPath(dir, name))
		if err != nil {
			return err
		}
		list.Contexts = append(list.Contexts, contextRow{Name: name, URL: c.URL, Actor: c.Actor, Role: c.Role, Current: name == currentContext(dir)})
	}
	return show(s, contextTable, list, list.Contexts)
}
