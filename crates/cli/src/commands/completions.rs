//! `goldseam completions`.

use clap::Args;
use clap_complete::Shell;

use crate::error::{CliError, Exit};
use crate::{args, out};

/// Asks the program for candidates. Bash splits words at `:` and `=` and replaces only the part after the last one.
const BASH: &str = r#"_goldseam() {
    local line="${COMP_LINE:0:COMP_POINT}" current found breaks before
    local -a words
    read -ra words <<< "$line"
    if [[ $line == *[[:space:]] ]]; then words+=(""); fi
    current="${words[${#words[@]}-1]}"
    breaks="${COMP_WORDBREAKS//[^:=]/}"
    before=""
    if [[ -n $breaks ]]; then before="${current%"${current##*[$breaks]}"}"; fi
    COMPREPLY=()
    while IFS= read -r found; do
        found="${found%%$'\t'*}"
        COMPREPLY+=("${found#"$before"}")
    done < <("$1" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -o bashdefault -o default -F _goldseam goldseam
"#;

const ZSH: &str = r#"#compdef goldseam
_goldseam() {
    local -a found described
    local line
    found=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $found; do
        described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( ${#described} )); then _describe -V 'goldseam' described; else _files; fi
}
if [ "$funcstack[1]" = "_goldseam" ]; then _goldseam "$@"; else compdef _goldseam goldseam; fi
"#;

const FISH: &str = r#"function __goldseam_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (goldseam __complete -- $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c goldseam -f -k -a '(__goldseam_complete)'
"#;

/// Print a completion script for a shell
///
/// The scripts of bash, zsh and fish also complete run ids, workflows, step paths, open questions, rules and queues of
/// the store from --store, --server or the environment. They ask this program, which reads at most one page of the
/// store. Those of other shells complete commands and options only.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam completions bash > ~/.local/share/bash-completion/completions/goldseam\n  goldseam completions zsh > ~/.zfunc/_goldseam\n  goldseam completions fish > ~/.config/fish/completions/goldseam.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CliError> {
    match args.shell {
        Shell::Bash => out::raw(BASH),
        Shell::Zsh => out::raw(ZSH),
        Shell::Fish => out::raw(FISH),
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "goldseam", &mut script);
            out::raw(&String::from_utf8_lossy(&script));
        }
    }
    Ok(Exit::Ok)
}
