package scaling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScheduleThatCannotBeReadIsRefused(t *testing.T) {
	for _, c := range []struct{ name, zone, start, end, says string }{
		{"zone", "Mars/Olympus", "0 9 * * *", "0 17 * * *", `schedule office: timeZone "Mars/Olympus" is not in the IANA time zone database`},
		{"the machine's own zone", "Local", "0 9 * * *", "0 17 * * *", `timeZone "Local" is not in`},
		{"start", "UTC", "9 o'clock", "0 17 * * *", `schedule office: start: "9 o'clock" is no cron expression of five fields`},
		{"end with seconds", "UTC", "0 9 * * *", "0 0 17 * * *", `schedule office: end: "0 0 17 * * *" is no cron expression of five fields`},
		{"zone in the expression", "UTC", "TZ=Asia/Tokyo 0 9 * * *", "0 17 * * *", "sets a time zone; use timeZone"},
		{"interval", "UTC", "@every 1h", "0 17 * * *", "is no cron expression of five fields"},
		{"never", "UTC", "0 9 30 2 *", "0 17 * * *", `"0 9 30 2 *" never comes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseSchedule("office", c.zone, c.start, c.end)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := ParseSchedule("office", "", "0 9 * * 1-5", "0 17 * * 1-5")
	require.NoError(t, err, "no zone is UTC")
}
