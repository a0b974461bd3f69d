package ident_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

func TestAComputedIDDependsOnEachPart(t *testing.T) {
	if ident.From("a", "bc") == ident.From("ab", "c") {
		t.Error("parts run into each other")
	}
	// For ever: ids computed by an older version must be found again.
	if got, want := ident.From("task", "x"), "8e6a8a50-5540-535d-8415-210e9ea82348"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !ident.IsUUID(ident.New()) {
		t.Error("New does not return a UUID")
	}
}

func TestOnlyAUUIDInItsUsualFormPasses(t *testing.T) {
	for _, id := range []string{"", "x", strings.ToUpper(ident.New()), "{" + ident.New() + "}", ident.New() + "0"} {
		if err := ident.Check("id", id); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestNamesAreOneSubjectToken(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "node-exporter": true, "agents_core": true, "_a": false, "a_": false, "9lives": true,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false,
		"a b": false, "a*": false, ">": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		if err := ident.CheckName("agent", name); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", name, err, ok)
		}
	}
	for name, ok := range map[string]bool{
		"web-1.example.org": true, "web_1": true, "4QENZE2": true, ".x": false, "_x": false, "a b": false, "a/b": false,
		"": false,
	} {
		if err := ident.CheckHostname("server", name); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", name, err, ok)
		}
	}
}
