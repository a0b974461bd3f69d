package operator

import "github.com/spf13/cobra"

func (s *session) explainCommand() *cobra.Command { return &cobra.Command{Use: "explain"} }
