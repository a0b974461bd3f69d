package auth

import (
	"slices"
	"strings"
	"testing"
)

func TestTheNameOfACommandStandsForWhatItAsksFor(t *testing.T) {
	t.Parallel()
	for words, want := range map[string][]string{
		"block": {"add block"}, "restart": {"upgrade"}, "restart agent": {"upgrade"}, "status": {"count server"},
		"events": {"read fact"}, "explain": {"show server"}, "apply": {"put record"},
		"watch": {"show intent-progress"}, "token create": {"create token"}, "create token": {"create token"},
		"server enroll": {"enroll server", "enroll server"}, "hold": {"put record"}, "env create": {"put record"},
		"create env": {"put record"}, "up": {"upgrade"}, "rollout start": {"rollout"}, "fly": nil,
	} {
		verb, noun, _ := strings.Cut(words, " ")
		var have []string
		for _, a := range meant(verb, noun, actions()) {
			have = append(have, a.name())
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s stands for %q; want %q", words, have, want)
		}
	}
}

func TestWhatCommandsAskForIsThere(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range actions() {
		names = append(names, a.name())
	}
	for command, wanted := range commands {
		for _, name := range wanted {
			if !slices.Contains(names, name) {
				t.Errorf("%s asks for %q, which is no action", command, name)
			}
		}
	}
}
