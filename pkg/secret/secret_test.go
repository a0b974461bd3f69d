package secret_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

func key(t testing.TB, text string) *secret.Key {
	t.Helper()
	k, err := secret.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestASealedValueOpensWithItsKeyAndUnderItsNameOnly(t *testing.T) {
	k, other := key(t, secret.NewKeyText()), key(t, secret.NewKeyText())
	for _, value := range []string{"", "x", "hunter2", strings.Repeat("ü", 2048)} {
		s := k.Seal("password", value)
		if have, err := k.Open("password", s); err != nil || have != value {
			t.Errorf("%q (%v), want %q", have, err, value)
		}
		if len(s) != secret.SealedBytes(len(value)) {
			t.Errorf("%d bytes sealed have %d, want %d", len(value), len(s), secret.SealedBytes(len(value)))
		}
		if s != k.Seal("password", value) || !secret.IsSealed(s) {
			t.Error("the same value is sealed to another text")
		}
		for what, err := range map[string]error{
			"another name": opens(k, "token", s), "another key": opens(other, "password", s),
			"a changed one": opens(k, "password", s[:len(s)-2]+"AA"), "a short one": opens(k, "password", s[:20]),
			"no sealed one": opens(k, "password", value),
		} {
			if !fault.Is(err, fault.Denied) {
				t.Errorf("%s: %v, want Denied", what, err)
			}
		}
	}
}

func opens(k *secret.Key, name, sealed string) error {
	_, err := k.Open(name, sealed)
	return err
}

func TestASealedValueShowsNothingOfItsValue(t *testing.T) {
	k := key(t, secret.NewKeyText())
	if len(k.Seal("a", "1")) != len(k.Seal("a", "a longer password")) {
		t.Error("short values have sealed forms of different lengths")
	}
	one, two := secret.Text(k.Seal("a", "1")), secret.Text(k.Seal("a", "2"))
	if one == two || len(one) != len("<secret, 0123456789ab>") || secret.Text("plain") != "plain" {
		t.Errorf("shown as %s and %s", one, two)
	}
}

func TestAWrongKeyIsRefusedWithoutItsText(t *testing.T) {
	for _, text := range []string{"", "canary", secret.NewKeyText()[:20]} {
		if _, err := secret.ParseKey(text); !fault.Is(err, fault.Invalid) ||
			text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzOpenNeverPanics(f *testing.F) {
	k := key(f, secret.NewKeyText())
	f.Add("a", k.Seal("a", "b"))
	f.Fuzz(func(_ *testing.T, name, sealed string) { _, _ = k.Open(name, sealed) })
}

func ExampleScrub() {
	values := map[string]string{"password": "hunter2", "former": "hunter", "pin": "in"}
	fmt.Println(secret.Scrub("login with hunter2 failed", values))
	// Output: login with <secret password> failed
}
