package image

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// execRecipe is a program of the image that is run to its end.
type execRecipe struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func (r *execRecipe) exec() *imagev1.Exec {
	if r == nil {
		return nil
	}
	return &imagev1.Exec{Command: r.Command, Args: r.Args}
}

// checkExec looks at a program that is run beside the agent; what says which key names it.
func checkExec(what string, e *imagev1.Exec) error {
	if e == nil {
		return nil
	}
	if e.Command == "" {
		return refuse(CodeBadManifest, "%s.command is missing", what)
	}
	if !inside(e.Command) {
		return refuse(CodeOutside, "%s.command %q is not a relative path inside the image", what, e.Command)
	}
	return nil
}

// execWords gives what variables are filled into.
func execWords(e *imagev1.Exec) []string {
	if e == nil {
		return nil
	}
	return append([]string{e.Command}, e.Args...)
}
