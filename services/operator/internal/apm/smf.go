package apm

import (
	"encoding/xml"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// service is what is read of a service manifest of SMF.
type service struct {
	file    string
	Methods []method   `xml:"service>exec_method"`
	Env     []variable `xml:"service>method_context>method_environment>envvar"`
	Needs   []variable `xml:"service>dependency"`
}

// method is how SMF starts, stops or refreshes a service.
type method struct {
	Name    string     `xml:"name,attr"`
	Exec    string     `xml:"exec,attr"`
	Timeout string     `xml:"timeout_seconds,attr"`
	Env     []variable `xml:"method_context>method_environment>envvar"`
}

// variable has a name and perhaps a value.
type variable struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// manifestDirs are where agents keep their service manifests.
var manifestDirs = []string{"smf/manifests", "smf"}

// findService returns the service of the agent: the one with its name, or the only one; nil without one.
func (c *conversion) findService() (*service, error) {
	var files []string
	for _, dir := range manifestDirs {
		entries, err := fs.ReadDir(c.root.FS(), dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := strings.TrimSuffix(e.Name(), ".in"); strings.HasSuffix(name, ".xml") && e.Type().IsRegular() {
				files = append(files, path.Join(dir, e.Name()))
			}
		}
	}
	at := slices.IndexFunc(files, func(f string) bool {
		return strings.TrimSuffix(strings.TrimSuffix(path.Base(f), ".in"), ".xml") == c.manifest.Name
	})
	switch {
	case len(files) == 0:
		return nil, nil
	case at < 0 && len(files) > 1:
		c.skip(strings.Join(files, ", "), "several services, none with the agent's name")
		return nil, nil
	case at < 0:
		at = 0
	}
	for n, f := range files {
		if n != at {
			c.skip(f, "a further service; an agent of Garrison has one")
		}
	}
	data, err := fs.ReadFile(c.root.FS(), files[at])
	if err != nil {
		return nil, err
	}
	s := &service{file: files[at]}
	if err := xml.Unmarshal(data, s); err != nil {
		c.skip(files[at], "it is no service manifest: "+err.Error())
		return nil, nil
	}
	return s, nil
}

// method returns a method of the service; empty without one.
func (s *service) method(name string) method {
	if s != nil {
		for _, m := range s.Methods {
			if m.Name == name {
				return m
			}
		}
	}
	return method{}
}

// run returns the part run of the recipe.
func (c *conversion) run() (map[string]any, error) {
	words := c.Run
	if len(words) == 0 {
		words = strings.Fields(strings.TrimSuffix(strings.TrimSpace(c.service.method("start").Exec), "&"))
	}
	if len(words) == 0 {
		return nil, wrong("%s has no service with a start method; --run PROGRAM says what is run, --kind files that "+
			"nothing is", c.Archive)
	}
	program := c.local(words[0])
	if !c.exists(program) {
		return nil, wrong("the start method %q does not begin with a program of the agent; --run PROGRAM says what is "+
			"run, --kind files that nothing is", strings.Join(words, " "))
	}
	args := []string{}
	for _, w := range words[1:] {
		if file := c.local(w); file != w || strings.Contains(w, "/") && c.exists(file) {
			w = "${image}/" + file
		}
		args = append(args, w)
	}
	run := map[string]any{"command": program, "args": args}
	if env := c.env(); len(env) > 0 {
		run["env"] = env
	}
	if n, err := strconv.Atoi(c.service.method("stop").Timeout); err == nil && n > 0 {
		run["stop_timeout"] = strconv.Itoa(n) + "s"
	}
	return run, nil
}

// local returns the path of a file within the agent, of a path where Triton installs it.
func (c *conversion) local(word string) string {
	for _, prefix := range []string{
		"/opt/smartdc/agents/lib/node_modules/", "@@PREFIX@@/lib/node_modules/", "@@PREFIX@@/",
	} {
		if rest, ok := strings.CutPrefix(word, prefix+c.manifest.Name+"/"); ok {
			return path.Clean(rest)
		}
	}
	if !path.IsAbs(word) && c.exists(path.Clean(word)) {
		return path.Clean(word)
	}
	return word
}

// env returns the environment of the service. What names a place of Triton is left out.
func (c *conversion) env() map[string]string {
	if c.service == nil {
		return nil
	}
	out := map[string]string{}
	for _, v := range slices.Concat(c.service.Env, c.service.method("start").Env) {
		if v.Name == "PATH" || strings.Contains(v.Value, "@@") || strings.Contains(v.Value, "/opt/smartdc") {
			c.skip("environment "+v.Name, "its value "+strconv.Quote(v.Value)+" names a place of Triton")
			continue
		}
		out[v.Name] = v.Value
	}
	return out
}
