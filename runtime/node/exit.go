package node

import "errors"

// ExitCode is the status with which a process ends: 0 without an error, 2 when
// a setting was refused, which no restart mends, and 1 otherwise.
func ExitCode(err error) int {
	var setting *SettingError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &setting):
		return 2
	}
	return 1
}
