package packages

import (
	"path"
	"regexp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// run returns the part run of the recipe. It notes every setting of the unit that no field of an image means.
func (c *conversion) run(u *unit) (map[string]any, error) {
	run := map[string]any{}
	env := c.environment(u)
	command, err := c.command(u, env)
	if err != nil {
		return nil, err
	}
	if err := c.configure(run); err != nil {
		return nil, err
	}
	args := []string{}
	for _, w := range command[1:] {
		args = append(args, c.place(w))
	}
	for name, value := range env {
		env[name] = c.place(value)
	}
	run["command"], run["args"] = command[0], args
	if len(env) > 0 {
		run["env"] = env
	}
	if u == nil {
		return run, nil
	}
	m := &mapping{conversion: c, unit: u, run: run, sandbox: map[string]any{}, limits: map[string]any{}}
	return run, m.settings()
}

// command returns the program and the words that it is started with.
func (c *conversion) command(u *unit, env map[string]string) ([]string, error) {
	all := c.Run
	if len(all) == 0 {
		starts := u.values("Service", "ExecStart")
		if len(starts) != 1 {
			return nil, c.noCommand("%s of %s has %d commands under ExecStart, want one", path.Base(u.file), c.File,
				len(starts))
		}
		all = c.expand(u, words(strings.TrimLeft(u.specifiers().Replace(starts[0]), "-:+!|@")), env)
		if strings.Contains(starts[0][:strings.IndexAny(starts[0]+"/", "/")], "@") && len(all) > 1 {
			c.note(code.NotMapped, "ExecStart", "its program is started with its own name, not as "+all[1])
			all = append(all[:1], all[2:]...)
		}
	}
	if len(all) == 0 || !c.root.isFile(strings.TrimLeft(all[0], "/")) {
		return nil, c.noCommand("the command %q does not begin with a program of %s", strings.Join(all, " "), c.File)
	}
	return append([]string{path.Clean(strings.TrimLeft(all[0], "/"))}, all[1:]...), nil
}

func (c *conversion) noCommand(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.NoCommand, format, args...).
		Try("--run 'PROGRAM ARGUMENTS' with a program of the package")
}

// variables are $NAME as a whole word, ${NAME} anywhere, and $$ for a dollar sign.
var variables = regexp.MustCompile(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand replaces variables in words as systemd does.
func (c *conversion) expand(u *unit, all []string, env map[string]string) (out []string) {
	value := func(name string) string {
		v, ok := env[name]
		if !ok {
			c.note(code.NotMapped, "ExecStart", "$"+name+" is not set in "+path.Base(u.file)+" or a file that it "+
				"names; it is left empty")
		}
		return v
	}
	for _, w := range all {
		if name, ok := strings.CutPrefix(w, "$"); ok && name != "" && !strings.ContainsAny(name, "${}") {
			out = append(out, words(value(name))...)
			continue
		}
		out = append(out, variables.ReplaceAllStringFunc(w, func(v string) string {
			if v == "$$" {
				return "$"
			}
			return value(strings.Trim(v, "${}"))
		}))
	}
	return out
}

// environment returns the variables of the unit and of the files that it names.
func (c *conversion) environment(u *unit) map[string]string {
	env := map[string]string{}
	if u == nil {
		return env
	}
	set := func(assignment string) {
		if name, value, ok := strings.Cut(assignment, "="); ok {
			env[strings.TrimSpace(name)] = value
		}
	}
	for _, line := range u.values("Service", "Environment") {
		for _, w := range words(u.specifiers().Replace(line)) {
			set(w)
		}
	}
	for _, file := range u.values("Service", "EnvironmentFile") {
		name := strings.TrimLeft(file, "-/")
		text, err := c.root.text(name)
		if err != nil {
			c.note(code.NotMapped, "EnvironmentFile="+file, "the package has no such file of at most 1 MiB; run.env "+
				"takes its place")
			continue
		}
		c.baked[name] = true
		c.note(code.NotMapped, name, "its values of today are part of run.args and run.env; a later change of the "+
			"file does not count")
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
			line = strings.TrimSpace(line)
			name, value, ok := strings.Cut(line, "=")
			if ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
				set(name + "=" + strings.Join(words(value), " "))
			}
		}
	}
	return env
}

// absolute matches an absolute path in a word, and what stands before it.
var absolute = regexp.MustCompile(`(^|[=:,@ ])(/[^\s:,=]+)`)

// place replaces the paths of files of the package in a word: a configuration file lies in ${config}, another in
// ${image}.
func (c *conversion) place(word string) string {
	return absolute.ReplaceAllStringFunc(word, func(found string) string {
		at := strings.Index(found, "/")
		name := strings.TrimLeft(path.Clean(found[at:]), "/")
		switch {
		case c.configs[name] || c.root.isDir(name) && hasBelow(c.configs, name):
			c.named[name] = true
			return found[:at] + "${config}/" + name
		case c.root.isFile(name) && !c.baked[name], c.root.isDir(name) && isData(name):
			c.named[name] = true
			return found[:at] + "${image}/" + name
		}
		return found
	})
}

// hasBelow reports whether a set has a file of a directory.
func hasBelow(set map[string]bool, dir string) bool {
	for name := range set {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// isData reports whether the files of a directory are never changed.
func isData(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return top == "usr" || top == "opt" || top == "lib"
}
