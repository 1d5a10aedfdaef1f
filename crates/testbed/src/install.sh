# Installs the Debian package $1 without starting a service or creating a cluster; needs root.
# The files that forbid both are removed at the end, even after a failure.
set -eu
export DEBIAN_FRONTEND=noninteractive

# One installation at a time: tests run in many processes.
exec 9>/run/goldseam-testbed.lock
flock 9

policy=/usr/sbin/policy-rc.d
kept=$policy.goldseam-testbed
cluster=/etc/postgresql-common/createcluster.d/goldseam-testbed.conf
restore() {
    rm -f "$cluster" "$policy"
    if [ -e "$kept" ]; then mv "$kept" "$policy"; fi
}
trap restore EXIT
trap 'exit 1' INT TERM HUP

if [ -e "$policy" ] && [ ! -e "$kept" ]; then mv "$policy" "$kept"; fi
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"
mkdir -p "${cluster%/*}"
echo 'create_main_cluster = false' >"$cluster"

apt-get -o DPkg::Lock::Timeout=300 update
apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "$1"

# The next boot does not start it either. (The service of Postgres starts clusters, and no cluster exists.)
if [ "$1" = pgbouncer ] && command -v systemctl >/dev/null; then
    systemctl disable pgbouncer.service || true
fi
if [ "$1" = prometheus ] && command -v systemctl >/dev/null; then
    systemctl disable prometheus.service || true
fi
