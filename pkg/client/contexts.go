package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// Contexts is a directory of saved contexts, one of which is in use.
type Contexts struct{ dir string }

// SavedContexts returns the contexts of a user: those in garrison below XDG_CONFIG_HOME, or else below HOME/.config. An
// error is Invalid when neither variable is set.
func SavedContexts(getenv func(string) string) (Contexts, error) {
	if d := getenv("XDG_CONFIG_HOME"); d != "" {
		return Contexts{filepath.Join(d, "garrison")}, nil
	}
	if d := getenv("HOME"); d != "" {
		return Contexts{filepath.Join(d, ".config", "garrison")}, nil
	}
	return Contexts{}, fault.New(fault.Invalid, "neither XDG_CONFIG_HOME nor HOME is set. Try: --context FILE")
}

// FindContext returns the context with a name: the path of a context file or the name of a saved context. Without a
// name it returns that of GARRISON_CONTEXT, or else the saved context that is in use. An error has the code NO_CONTEXT,
// NOT_FOUND or DAMAGED_CONTEXT, or says what is wrong with the file.
func FindContext(name string, getenv func(string) string) (trust.Context, error) {
	saved, err := SavedContexts(getenv)
	for _, name := range []string{name, getenv("GARRISON_CONTEXT")} {
		switch {
		case name == "":
		case ident.CheckName("context", name) != nil:
			return readFile(name)
		case err != nil:
			return trust.Context{}, err
		default:
			return saved.find(name)
		}
	}
	if err == nil {
		if name := saved.Current(); name != "" {
			return saved.find(name)
		}
	}
	return trust.Context{}, fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code: code.NoContext,
		Message: "no context is selected; pass --context FILE, set GARRISON_CONTEXT=FILE, or save one " +
			"(garrisond writes operator.json to its data directory)",
		Try: "garrison context add NAME FILE",
	})
}

// readFile reads a context file that is named by its path.
func readFile(path string) (trust.Context, error) {
	c, err := trust.ReadContext(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fault.Refuse(fault.Invalid, &apiv1.Refusal{
			Code: code.NotFound, Message: "no context file " + strconv.Quote(path), Try: "garrison context list",
		})
	}
	return c, damaged(err)
}

// damaged returns an error about a context file with invalid content with its code, and any other as it is.
func damaged(err error) error {
	if !errors.Is(err, trust.ErrDamaged) {
		return err
	}
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code: code.DamagedContext, Message: err.Error(), Try: "garrison context list",
	})
}

// find returns a saved context, or the context file of that name in the working directory.
func (s Contexts) find(name string) (trust.Context, error) {
	c, err := trust.ReadContext(s.path(name))
	if !errors.Is(err, fs.ErrNotExist) {
		return c, damaged(err)
	}
	if c, err := trust.ReadContext(name); !errors.Is(err, fs.ErrNotExist) {
		return c, damaged(err)
	}
	return trust.Context{}, s.unknown(name)
}

func (s Contexts) path(name string) string { return filepath.Join(s.dir, "contexts", name+".json") }

func (s Contexts) currentPath() string { return filepath.Join(s.dir, "context") }

func (s Contexts) unknown(name string) error {
	names := s.Names()
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{
		Code:    code.NotFound,
		Message: fmt.Sprintf("no saved context %q (%d searched)", name, len(names)),
		Nearest: nearest.Name(name, slices.Values(names)),
		Try:     "garrison context list",
	})
}

// Names returns the names of the saved contexts, sorted.
func (s Contexts) Names() []string {
	paths, _ := filepath.Glob(s.path("*")) // the only error is a bad pattern
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(p), ".json")
	}
	return names
}

// Read reads a saved context.
func (s Contexts) Read(name string) (trust.Context, error) { return trust.ReadContext(s.path(name)) }

// Current returns the name of the context in use, or "" without one.
func (s Contexts) Current() string {
	data, err := os.ReadFile(s.currentPath())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Add saves the context in a file under a name. The first one that is saved is the one in use.
func (s Contexts) Add(name, file string) (trust.Context, error) {
	if err := ident.CheckName("context", name); err != nil {
		return trust.Context{}, err
	}
	c, err := trust.ReadContext(file)
	if err != nil {
		return c, err
	}
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
		return c, fmt.Errorf("save context %s: %w", name, err)
	}
	if err := c.Write(s.path(name)); err != nil {
		return c, fmt.Errorf("save context %s: %w", name, err)
	}
	if s.Current() != "" {
		return c, nil
	}
	return c, s.Use(name)
}

// Use makes a saved context the one in use. An error has the code NOT_FOUND when there is no such context.
func (s Contexts) Use(name string) error {
	if _, err := os.Stat(s.path(name)); err != nil {
		return s.unknown(name)
	}
	if err := os.WriteFile(s.currentPath(), []byte(name+"\n"), 0o600); err != nil {
		return fmt.Errorf("use context %s: %w", name, err)
	}
	return nil
}

// Remove deletes a saved context. Without the one in use, no context is selected. An error has the code NOT_FOUND
// when there is no such context.
func (s Contexts) Remove(name string) error {
	err := os.Remove(s.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.unknown(name)
	case err != nil:
		return fmt.Errorf("remove context %s: %w", name, err)
	case s.Current() != name:
		return nil
	}
	if err := os.Remove(s.currentPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove context %s: %w", name, err)
	}
	return nil
}

// RenewalDue reports whether less than a third of the life of a context's credentials is left. It is false for
// credentials that do not expire.
func RenewalDue(who trust.Context, at time.Time) bool {
	from, until := trust.Times(who.JWT)
	return !until.IsZero() && until.Sub(at) < until.Sub(from)/3
}

// Renew has the credentials of a context signed again for the same key, learns the CAs
// of the bus, and writes both to the context's file. The
// old ones stay valid until they expire.
func (c *Client) Renew(ctx context.Context, who trust.Context) (trust.Context, error) {
	r, err := Call[*accessv1.RenewSelfResponse](ctx, c, &accessv1.RenewSelfRequest{PublicKey: who.PublicKey()})
	if err != nil {
		return who, err
	}
	who.JWT = r.GetJwt()
	if r.GetBusCa() != "" {
		who.CA = r.GetBusCa()
	}
	if who.File == "" {
		return who, nil
	}
	if err := who.Write(who.File); err != nil {
		return who, fmt.Errorf("keep the renewed credentials: %w", err)
	}
	return who, nil
}
