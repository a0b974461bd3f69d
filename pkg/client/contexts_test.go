package client_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// environment returns variables in place of the process's.
func environment(t testing.TB, values map[string]string) func(string) string {
	t.Helper()
	return func(name string) string { return values[name] }
}

func contextFile(t testing.TB, actor string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), actor+".json")
	if err := (trust.Context{URL: "nats://127.0.0.1:1", Actor: actor, Role: "admin"}).Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAContextIsFoundByPathByNameByTheEnvironmentOrBecauseItIsInUse(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	saved, err := client.SavedContexts(environment(t, map[string]string{"XDG_CONFIG_HOME": home}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ann", "bob"} {
		if _, err := saved.Add(name, contextFile(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if have := saved.Names(); !slices.Equal(have, []string{"ann", "bob"}) || saved.Current() != "ann" {
		t.Errorf("%v, %q in use; want ann and bob, ann in use since it was the first", have, saved.Current())
	}
	path := contextFile(t, "eve")
	for _, c := range []struct{ name, variable, use, want string }{
		{name: "", want: "ann"},
		{name: "", use: "bob", want: "bob"},
		{name: "", variable: "ann", want: "ann"},
		{name: path, variable: "ann", want: "eve"},
		{name: "bob", variable: path, want: "bob"},
		{name: "", variable: path, want: "eve"},
	} {
		if c.use != "" {
			if err := saved.Use(c.use); err != nil {
				t.Fatal(err)
			}
		}
		env := environment(t, map[string]string{"XDG_CONFIG_HOME": home, "GARRISON_CONTEXT": c.variable})
		if have, err := client.FindContext(c.name, env); err != nil || have.Actor != c.want {
			t.Errorf("%+v: %s (%v)", c, have.Actor, err)
		}
	}
}

func TestAContextThatIsNotSavedIsRefusedWithTheNearestName(t *testing.T) {
	t.Parallel()
	env := environment(t, map[string]string{"HOME": t.TempDir()})
	saved, err := client.SavedContexts(env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := saved.Add("production", contextFile(t, "ann")); err != nil {
		t.Fatal(err)
	}
	_, err = client.FindContext("prodction", env)
	if r := fault.RefusalOf(err); r.GetCode() != "NOT_FOUND" || r.GetNearest() != "production" {
		t.Errorf("%v, want NOT_FOUND near production", err)
	}
	if err := saved.Use("staging"); fault.RefusalOf(err).GetCode() != "NOT_FOUND" {
		t.Errorf("%v, want NOT_FOUND", err)
	}
}

func TestWithoutAnyContextTheErrorNamesTheWaysToPassOne(t *testing.T) {
	t.Parallel()
	for _, values := range []map[string]string{nil, {"HOME": t.TempDir()}} {
		_, err := client.FindContext("", environment(t, values))
		if fault.RefusalOf(err).GetCode() != "NO_CONTEXT" || !strings.Contains(err.Error(), "GARRISON_CONTEXT") {
			t.Errorf("%v, want NO_CONTEXT", err)
		}
	}
}

func TestADamagedContextHasACode(t *testing.T) {
	t.Parallel()
	env := environment(t, map[string]string{"HOME": t.TempDir()})
	saved, err := client.SavedContexts(env)
	if err != nil {
		t.Fatal(err)
	}
	file := contextFile(t, "ann")
	if _, err := saved.Add("prod", file); err != nil {
		t.Fatal(err)
	}
	stored, err := client.FindContext("prod", env)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, stored.File} {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{file, "prod"} {
		_, err := client.FindContext(name, env)
		if r := fault.RefusalOf(err); r.GetCode() != "DAMAGED_CONTEXT" || r.GetTry() == "" ||
			!strings.Contains(r.GetMessage(), "does not hold a context") {
			t.Errorf("%s: %v, want DAMAGED_CONTEXT", name, err)
		}
	}
}

func TestARenewalIsDueInTheLastThird(t *testing.T) {
	t.Parallel()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	person := func(expires time.Time) trust.Context {
		c, err := a.Person("ann", topology.Viewer, "nats://here", expires)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := person(now.Add(90 * time.Hour))
	for after, want := range map[time.Duration]bool{0: false, 59 * time.Hour: false, 61 * time.Hour: true} {
		if due := client.RenewalDue(c, now.Add(after)); due != want {
			t.Errorf("after %v it is due: %v, want %v", after, due, want)
		}
	}
	if client.RenewalDue(person(time.Time{}), now) || client.RenewalDue(trust.Context{JWT: "j"}, now) {
		t.Error("it is due for credentials that do not expire")
	}
}
