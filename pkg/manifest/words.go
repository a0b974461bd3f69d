package manifest

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// The bounds of all texts that may contain variables.
const (
	maxRun   = 64 << 10 // bytes together
	maxWords = 4096
)

var (
	envName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variable = regexp.MustCompile(`\$\{([^}]*)\}?`)
	known    = map[string]bool{
		"${agent}":   true,
		"${version}": true,
		"${server}":  true,
		"${state}":   true,
		"${image}":   true,
		"${config}":  true,
	}
	label = regexp.MustCompile(`^\$\{label\.[^{}$\s]+\}$`)
	// metadata is a variable whose value is merged for each instance.
	metadata = regexp.MustCompile(`^\$\{metadata\.[A-Za-z][A-Za-z0-9_]*\}$`)
)

// word is a text that may contain variables, with its field.
type word struct{ field, text string }

// words looks at every text that may contain variables.
func (f runFaults) words(r *imagev1.Run) {
	words := wordsOf(r)
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		field := "run.env." + name
		if !envName.MatchString(name) {
			f.Add(field, code.BadManifest, "run.env has the name %q (want letters, digits and underscores)", name)
		}
		words = append(words, word{field, name}, word{field, r.Env[name]})
	}
	total := 0
	for _, w := range words {
		total += len(w.text)
		f.word(w)
	}
	if total > maxRun || len(words) > maxWords {
		f.Add("run", code.BadManifest, "command, arguments and environment have %d bytes in %d words, want at most %d "+
			"in %d", total, len(words), maxRun, maxWords)
	}
}

// wordsOf returns the texts of a run that may contain variables, but for its environment.
func wordsOf(r *imagev1.Run) []word {
	words := []word{
		{"run.command", r.Command},
		{"run.ready.http", r.GetReady().GetHttp()}, {"run.ready.tcp", r.GetReady().GetTcp()},
		{"run.ready.exec.command", r.GetReady().GetExec().GetCommand()},
		{"run.rehearsal.command", r.GetRehearsal().GetCommand()},
	}
	for _, list := range []struct {
		field string
		args  []string
	}{
		{"run.args", r.Args},
		{"run.ready.exec.args", r.GetReady().GetExec().GetArgs()},
		{"run.rehearsal.args", r.GetRehearsal().GetArgs()},
	} {
		for n, text := range list.args {
			words = append(words, word{at(list.field, n), text})
		}
	}
	for n, s := range r.Sockets {
		words = append(words, word{at("run.sockets", n), s.GetListen()})
	}
	return words
}

func (f runFaults) word(w word) {
	if strings.ContainsRune(w.text, 0) {
		f.Add(w.field, code.BadManifest, "%s holds a zero byte in %q", w.field, w.text)
	}
	for _, v := range variable.FindAllString(w.text, -1) {
		if !known[v] && !label.MatchString(v) && !metadata.MatchString(v) {
			f.Add(w.field, code.UnknownVariable, "variable %s in %q is not known (want ${agent}, ${version}, "+
				"${server}, ${state}, ${image}, ${config}, ${label.NAME} or ${metadata.NAME})", v, w.text)
		}
	}
}
