import type { access as english } from "../en/access";
import type { Same } from "../same";

export const access: Same<typeof english> = {
  auth: {
    signIn: "登录",
    signOut: "退出登录",
    signingIn: "正在登录",
    username: "用户名",
    password: "密码",
    showPassword: "显示或隐藏密码",
    forgot: "不用密码登录",
    forgotHere: "在这台机器上运行此命令。它会输出一个令牌，管理员可凭它登录一次。",
    forgotAsk: "管理员可在服务器上运行此命令。它会输出一个令牌，可凭它登录一次；用 --user 指定用户。",
    once: "一次性令牌",
    onceHint: "也可以粘贴整个链接。",
    useOnce: "用令牌登录",
    onceFailed: "此登录链接已失效。",
  },
  setup: {
    title: "初始化 Muster",
    lead: "创建第一个管理员。",
    token: "初始化令牌",
    tokenHint: "服务器首次启动时会在链接中打印它；也可以粘贴整个链接。",
    command: "如需新的令牌，请在服务器所在的机器上运行：",
    passwordRule: "至少 {{n}} 个字符。",
    tooShort: "请至少使用 {{n}} 个字符。",
    again: "再次输入密码",
    differs: "两次输入的密码不一致。",
    create: "创建管理员",
    done: "Muster 已完成初始化。",
  },
};
